"""Answers of models, kept so that none is paid for twice (SPEC 5.6).

An answer belongs to a text and not to a document: it is keyed by model, prompt version, parameters and the text's hash,
and says what the model proposed, before anything is believed or screened. It is the extractor's own record of what it
made. It quotes the text, so it lives in the store and goes when nothing but RESTRICTED documents hold the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

import duckdb
import pyarrow as pa

from ragspine_assets.graph.reply_parser import Answer
from ragspine_assets.graph.temp_tables import existing_tables, registered, transaction
from ragspine_assets.policy import is_restricted
from ragspine_assets.store import ChunkStore, StoreError
from ragspine_assets.store.database import StoreBusyError


def answer_id(model: str, prompt_version: str, parameters: str, hashed_text: str) -> str:
    """Return the key of an answer."""
    return sha256(f"{model}\x1f{prompt_version}\x1f{parameters}\x1f{hashed_text}".encode()).hexdigest()


@dataclass(frozen=True)
class KeptAnswer:
    """An answer with all that it depends on.

    Attributes:
        model: the model that was asked.
        prompt_version: which rules and which form of the question.
        parameters: digest of the further parameters.
        text_hash: sha256 of the text it is about.
        answer: what was proposed.
        answered_by: the model that the endpoint says has answered.
        input_tokens, output_tokens: what it cost.
        doc_ids: documents that held the text when it was asked about; not stored.
    """

    model: str
    prompt_version: str
    parameters: str
    text_hash: str
    answer: Answer
    answered_by: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    doc_ids: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def answer_id(self) -> str:
        """The key."""
        return answer_id(self.model, self.prompt_version, self.parameters, self.text_hash)


class AnswerCache(Protocol):
    """Where answers are kept."""

    def find(self, keys: Collection[str]) -> dict[str, Answer]:
        """Return the answers kept under some keys."""
        ...

    def keep(self, answers: Sequence[KeptAnswer]) -> None:
        """Keep answers, all of them or none."""
        ...

    def withheld(self, doc_ids: Collection[str]) -> frozenset[str]:
        """Return those of some documents that nobody may be asked about, or of which nobody can tell that they may."""
        ...


class AnswersInMemory:
    """Answers kept as long as this object."""

    def __init__(self) -> None:
        self._kept: dict[str, Answer] = {}

    def find(self, keys: Collection[str]) -> dict[str, Answer]:
        """Return the answers kept under some keys."""
        return {key: self._kept[key] for key in keys if key in self._kept}

    def keep(self, answers: Sequence[KeptAnswer]) -> None:
        """Keep answers."""
        self._kept.update({kept.answer_id: kept.answer for kept in answers})

    def withheld(self, doc_ids: Collection[str]) -> frozenset[str]:  # noqa: ARG002
        """Return no document: nothing here knows labels."""
        return frozenset()


class StoredAnswers:
    """Answers in table `model_answer` of a store, which is opened for each call and closed again (SPEC 3.6).

    While another process holds the store, answers wait here; the next call of `keep` writes them too.

    Args:
        store: the chunk store.
    """

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._waiting: list[KeptAnswer] = []

    def find(self, keys: Collection[str]) -> dict[str, Answer]:
        """Return the answers kept under some keys."""
        wanted = pa.table({"answer_id": sorted(keys)}, schema=pa.schema([("answer_id", pa.string())]))
        with self._store.connect() as con, registered(con, gx_wanted_answer=wanted):
            rows = con.execute(
                "SELECT answer_id, proposals, problem FROM model_answer SEMI JOIN gx_wanted_answer USING (answer_id)"
            ).fetchall()
        return {key: Answer.from_json(proposals, problem) for key, proposals, problem in rows}

    def keep(self, answers: Sequence[KeptAnswer]) -> None:
        """Write answers in one transaction, except those about texts that have become RESTRICTED meanwhile."""
        self._waiting.extend(answers)
        if not self._waiting:
            return
        try:
            with self._store.connect() as con, transaction(con):
                closed = _closed(con, {doc_id for kept in self._waiting for doc_id in kept.doc_ids})
                open_ones = [kept for kept in self._waiting if not kept.doc_ids or kept.doc_ids - closed]
                _insert(con, open_ones)
        except StoreBusyError:
            return
        self._waiting.clear()

    def withheld(self, doc_ids: Collection[str]) -> frozenset[str]:
        """Return those of some documents that are RESTRICTED or gone by now; all of them while the store is busy.

        Who holds the store may be raising a label: what cannot be looked up is not sent.
        """
        try:
            with self._store.connect() as con:
                return _closed(con, doc_ids)
        except StoreBusyError:
            return frozenset(doc_ids)

    def finish(self) -> None:
        """Write what is still waiting.

        Raises:
            StoreError: the store stayed busy; the answers are lost.
        """
        self.keep(())
        if self._waiting:
            raise StoreError(
                f"{len(self._waiting)} answers of the model could not be stored, because another process holds the"
                " store. Let it finish, then run again; these texts will be asked about once more."
            )


def _insert(con: duckdb.DuckDBPyConnection, answers: Iterable[KeptAnswer]) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    unique = {kept.answer_id: kept for kept in answers}
    rows = [
        {
            "answer_id": key,
            "model": kept.model,
            "prompt_version": kept.prompt_version,
            "parameters": kept.parameters,
            "text_hash": kept.text_hash,
            "proposals": kept.answer.to_json(),
            "problem": kept.answer.problem,
            "answered_by": kept.answered_by,
            "input_tokens": kept.input_tokens,
            "output_tokens": kept.output_tokens,
            "asked_at": now,
        }
        for key, kept in sorted(unique.items())
    ]
    if rows:
        with registered(con, gx_answer_in=pa.Table.from_pylist(rows)):
            con.execute("DELETE FROM model_answer WHERE answer_id IN (SELECT answer_id FROM gx_answer_in)")
            con.execute("INSERT INTO model_answer BY NAME SELECT * FROM gx_answer_in")


def _closed(con: duckdb.DuckDBPyConnection, doc_ids: Collection[str]) -> frozenset[str]:
    if not doc_ids:
        return frozenset()
    asked = pa.table({"doc_id": sorted(doc_ids)}, schema=pa.schema([("doc_id", pa.string())]))
    with registered(con, gx_asked=asked):
        rows = con.execute(
            """
            SELECT doc_id, sensitivity, TRUE FROM narrative_chunk SEMI JOIN gx_asked USING (doc_id) WHERE active
            UNION SELECT doc_id, sensitivity, FALSE FROM document SEMI JOIN gx_asked USING (doc_id)
            """
        ).fetchall()
    there = {doc_id for doc_id, _, active in rows if active}
    secret = {doc_id for doc_id, label, _ in rows if is_restricted(label)}
    return frozenset(doc_id for doc_id in doc_ids if doc_id in secret or doc_id not in there)


def forget_answers(con: duckdb.DuckDBPyConnection) -> int:
    """Drop the answers about texts that no version of an open document holds; return how many went.

    To be called within a transaction, after labels are raised or documents purged. `gx_state` must be staged.
    """
    if "model_answer" not in existing_tables(con) or not con.execute("FROM model_answer LIMIT 1").fetchall():
        return 0
    gone = con.execute(
        """
        DELETE FROM model_answer WHERE text_hash NOT IN (
            SELECT DISTINCT sha256(text) FROM narrative_chunk JOIN gx_state s USING (doc_id) WHERE NOT s.restricted
        )
        """
    ).fetchall()
    return int(gone[0][0])
