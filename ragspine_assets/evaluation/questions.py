"""The golden set: questions, each with what is to be found for it (SPEC 10.1)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragspine_assets.documents.headers import header_problems
from ragspine_assets.errors import RagspineError
from ragspine_assets.retrieval.corpus import FILTER_KEYS

FILTER_PREFIX = "filter_"
COLUMNS = (
    "question",
    "citation",
    "doc_id",
    "passage",
    "language",
    "topic",
    *(f"{FILTER_PREFIX}{name}" for name in FILTER_KEYS),
)
"""Columns of the file. A row needs a question, and a passage, a citation or a document that is expected."""

_ALSO = {"phrase": "passage", "document": "doc_id"}


class QuestionsError(RagspineError, ValueError):
    """A golden set cannot be read; the message names file, line and what is allowed, and quotes nothing."""


@dataclass(frozen=True)
class Expected:
    """What is to be found: a passage, the passage that a citation names, or any of a document.

    Attributes:
        passage: the words, as they stand in the text but for white space and case; ``''`` for none.
        citation: a citation or ``chunk_id``; ``''`` for none.
        doc_id: the document; ``''`` where the passage alone says it.
    """

    passage: str = ""
    citation: str = ""
    doc_id: str = ""


@dataclass(frozen=True)
class GoldenQuestion:
    """A question and everything that answers it.

    Attributes:
        number: the line of the file in which it stands first, from 2.
        text: the question.
        expected: what is to be found; one row of the file each.
        language: its language, for the table; ``''`` if not given.
        topic: its subject, for the table; ``''`` if not given.
        filters: metadata that hits must have.
    """

    number: int
    text: str
    expected: tuple[Expected, ...]
    language: str = ""
    topic: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)


def read_questions(path: str | Path) -> list[GoldenQuestion]:
    """Read a golden set, ``.csv`` or ``.tsv``; rows of one question with the same filters are one question.

    Raises:
        QuestionsError: there is no such file, it is no table in UTF-8, or a row says too little.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise QuestionsError(f"{path} is not text in UTF-8. Save it as CSV in UTF-8.") from None
    except OSError as error:
        raise QuestionsError(f"{path} cannot be read: {error.strerror}. Set RAGSPINE_QUESTIONS to the file.") from None
    rows = csv.DictReader(
        io.StringIO(text, newline=""), strict=True, delimiter="\t" if path.suffix.casefold() == ".tsv" else ","
    )
    found: dict[tuple[object, ...], GoldenQuestion] = {}
    try:
        columns = [_ALSO.get(name.strip(), name.strip()) for name in rows.fieldnames or ()]
        if problems := header_problems(columns, COLUMNS, set(COLUMNS) - {"question"}):
            raise QuestionsError(f"{path}: {'; '.join(problems)}. Columns are {', '.join(COLUMNS)}.")
        rows.fieldnames = columns
        for row in rows:
            if None in row:
                raise QuestionsError(f"{path}, line {rows.line_num}: the row has more cells than the header.")
            _add(found, path, rows.line_num, {name: (value or "").strip() for name, value in row.items()})
    except csv.Error:
        raise QuestionsError(f"{path}, line {rows.line_num}: this is no table. Check quotes and separators.") from None
    return list(found.values())


def _add(found: dict[tuple[object, ...], GoldenQuestion], path: Path, number: int, values: Mapping[str, str]) -> None:
    if not any(values.values()):
        return
    expected = Expected(values.get("passage", ""), values.get("citation", ""), values.get("doc_id", ""))
    if not values["question"]:
        raise QuestionsError(f"{path}, line {number}: question is empty.")
    if expected == Expected():
        raise QuestionsError(f"{path}, line {number}: name what is expected: a passage, a citation or a doc_id.")
    filters = {name: values[key] for name in FILTER_KEYS if values.get(key := f"{FILTER_PREFIX}{name}")}
    key = (values["question"], tuple(filters.items()))
    before = found.get(key)
    found[key] = GoldenQuestion(
        before.number if before else number,
        values["question"],
        (*(before.expected if before else ()), expected),
        (before.language if before else "") or values.get("language", ""),
        (before.topic if before else "") or values.get("topic", ""),
        filters,
    )


def write_questions(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Return a golden set as CSV: question, doc_id, passage and language of each row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("question", "doc_id", "passage", "language"))
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return out.getvalue()


def _plain(cell: str) -> str:
    """Keep a spreadsheet from taking a cell for a formula."""
    return f"'{cell}" if cell[:1] in "=+-@\t\r" and cell else cell
