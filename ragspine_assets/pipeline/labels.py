"""What speaks for the labels of a store's documents, and what decided them (SPEC 1.8, 1.10, 1.11)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ragspine_assets.policy import LabelVerdict, Sensitivity, document_reference, read_label
from ragspine_assets.policy.labelling import reason_of
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.references import reference_key

_MOST_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class SignalCount:
    """One thing that speaks for a label, over all documents.

    Attributes:
        rule: ``pattern``, ``keyword``, ``marking``, ``carried label``, ...
        what: which one: words of the profile, a number, a GUID or a name; never words of a document's text.
        level: the level it asks for.
        documents: documents in which it was found.
        decided: documents whose label it decided.
    """

    rule: str
    what: str
    level: str
    documents: int
    decided: int


@dataclass(frozen=True, slots=True)
class LabelOverview:
    """The labels of a store, and why they are so.

    Attributes:
        labels: label to documents.
        reasons: ``(label, reason, documents)``, the most frequent first.
        signals: everything that speaks for a label.
        read_for_label_only: kind to ``(things, documents)``: what files say beside their text.
        problems: ``(document, what is wrong and what to do)``; the document by its reference where it is RESTRICTED.
    """

    labels: dict[str, int]
    reasons: tuple[tuple[str, str, int], ...]
    signals: tuple[SignalCount, ...]
    read_for_label_only: dict[str, tuple[int, int]]
    problems: tuple[tuple[str, str], ...]


def label_overview(store: ChunkStore) -> LabelOverview:
    """Return which carried labels, markings, keywords, patterns and reasons there are, and what each decided."""
    labels: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str, str]] = Counter()
    decided: Counter[tuple[str, str, str]] = Counter()
    beside: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    problems: list[tuple[str, str]] = []
    with store.connect() as connection:
        key = reference_key(connection)
        reader = connection.sql(
            "SELECT doc_id, sensitivity, label_reason, policy_findings, label_only, problems FROM document "
            "WHERE status != 'removed' ORDER BY doc_id"
        ).to_arrow_reader(4096)
        for batch in reader:
            for doc_id, held, reason, dumped, label_only, said in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                label = read_label(held)
                labels[str(label)] += 1
                reasons[str(label), reason] += 1
                signals = {}
                for finding in LabelVerdict.load(held, reason, dumped).findings:
                    signal = (finding.rule, finding.what, finding.level)
                    signals[signal] = signals.get(signal, False) or reason_of(finding) == reason
                found.update(signals.keys())
                decided.update(signal for signal, decides in signals.items() if decides)
                for kind, things in (json.loads(label_only) if label_only else {}).items():
                    beside[kind][0] += things
                    beside[kind][1] += 1
                if said and len(problems) < _MOST_PROBLEMS:
                    shown = document_reference(doc_id, key) if label is Sensitivity.RESTRICTED else doc_id
                    problems += [(shown, line) for line in said.split("\n")]
    return LabelOverview(
        {str(label): labels[str(label)] for label in Sensitivity if labels[str(label)]},
        tuple((label, reason, documents) for (label, reason), documents in _most_first(reasons)),
        tuple(SignalCount(*signal, documents, decided[signal]) for signal, documents in _most_first(found)),
        {kind: (things, documents) for kind, (things, documents) in sorted(beside.items())},
        tuple(problems[:_MOST_PROBLEMS]),
    )


_Key = TypeVar("_Key", bound=tuple[str, ...])


def _most_first(counted: Counter[_Key]) -> Sequence[tuple[_Key, int]]:
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))
