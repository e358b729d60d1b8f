"""What is known about a document, and who said so (SPEC 1.7, 1.8).

Sources in this order: an exact row of ``metadata.csv``, a glob row, front matter, the file's own title, the file name
(its period only). Nothing is guessed: what nobody said is ''.
"""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from ragspine_assets.documents.frontmatter import METADATA_KEYS, FrontMatter
from ragspine_assets.documents.headers import header_problems
from ragspine_assets.documents.normalise import BLANK, normalise_text
from ragspine_assets.documents.period import period_from_filename
from ragspine_assets.documents.source import METADATA_FILE
from ragspine_assets.errors import RagspineError
from ragspine_assets.policy.globs import glob_regex
from ragspine_assets.policy.labelling import Finding, LabelVerdict, SensitivityPolicy, explain_words, reason_of
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, read_label

_ID = "doc_id"
_DESCRIPTIVE = tuple(name for name in METADATA_KEYS if name != "sensitivity")
_EMPTY: Mapping[str, str] = MappingProxyType({})

ROW_REASON = "row of metadata.csv"
GLOB_REASON = "glob row of metadata.csv"
FRONT_MATTER_REASON = "front matter"
UNPARSED_REASON = "front matter that cannot be parsed"


class MetadataError(RagspineError, ValueError):
    """A ``metadata.csv`` that cannot be used; the message lists every fault by line and quotes no cell."""


@dataclass(frozen=True)
class MetadataTable:
    """The rows of ``metadata.csv``; the empty table is the default.

    Attributes:
        exact: ``doc_id`` (NFC) to the row's cells, stripped; every column of the file is present.
        globs: ``(glob, cells)`` in the order of the file.
        lines: key of each row (path or glob) to its line in the file.
    """

    exact: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    globs: tuple[tuple[str, Mapping[str, str]], ...] = ()
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(glob_regex(glob) + r"\Z") for glob, _ in self.globs)

    @cached_property
    def _literal(self) -> Mapping[str, Mapping[str, str]]:
        return dict(self.globs)

    def row_for(self, doc_id: str) -> Mapping[str, str] | None:
        """Return the exact row of a document, None if it has none."""
        row = self.exact.get(doc_id)
        # A file may be called report[1].pdf: a row that spells its name is about it, glob or not.
        return self._literal.get(doc_id) if row is None and self.globs else row

    def globs_for(self, doc_id: str) -> Mapping[str, str] | None:
        """Return the last glob row that matches a document, None if none does."""
        for index in range(len(self.globs) - 1, -1, -1):
            if self._compiled[index].match(doc_id):
                return self.globs[index][1]
        return None

    def unmatched(self, doc_ids: Collection[str]) -> tuple[str, ...]:
        """Return the rows' paths and globs that match none of some documents, in the order of the file."""
        known = doc_ids if isinstance(doc_ids, set | frozenset | dict) else frozenset(doc_ids)
        missing = [path for path in self.exact if path not in known]
        missing.extend(
            glob
            for (glob, _), compiled in zip(self.globs, self._compiled, strict=True)
            if glob not in known and not any(compiled.match(doc_id) for doc_id in known)
        )
        return tuple(sorted(missing, key=lambda key: self.lines.get(key, 0)))

    def __getstate__(self) -> dict[str, object]:
        """Let a table travel between processes, which read-only mappings do not."""
        return {
            "exact": {key: dict(cells) for key, cells in self.exact.items()},
            "globs": tuple((glob, dict(cells)) for glob, cells in self.globs),
            "lines": dict(self.lines),
        }

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Restore what `__getstate__` gave."""
        for name, value in state.items():
            object.__setattr__(self, name, value)


def is_glob(path: str) -> bool:
    """Tell whether the ``doc_id`` of a row is a glob: whether it has ``*``, ``?`` or ``[``."""
    return any(char in path for char in "*?[")


def metadata_table_of(root: str | Path) -> MetadataTable:
    """Read ``metadata.csv`` of a source folder; an empty table where there is none.

    A file that is there and cannot be read is an error, never an empty table: it may raise labels.

    Raises:
        MetadataError: as for `load_metadata_table`, and if the file or its folder cannot be read.
    """
    try:
        return load_metadata_table(Path(root) / METADATA_FILE)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return MetadataTable()
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else type(error).__name__
        message = f"metadata.csv of the source cannot be read ({why}); change the permissions of it or of its folder"
        raise MetadataError(message) from None


def load_metadata_table(source: str | Path | bytes) -> MetadataTable:
    """Read ``metadata.csv`` (SPEC 1.7).

    The column ``doc_id`` holds a path or a glob relative to the root: ``*`` and ``?`` match inside one folder or file
    name, ``**`` across them, ``[...]`` one character. Cells are stripped; empty lines are skipped; the same row twice
    is one row.

    Args:
        source: the file, or its bytes. UTF-8, with or without a BOM, or UTF-16 with one.

    Raises:
        MetadataError: if it is not in such an encoding, has no ``doc_id`` column, has a column that is none of the
            metadata, a row with more cells than columns or without ``doc_id``, or two rows for one ``doc_id`` that
            say different things.
        OSError: if the file cannot be read.
    """
    text = _decode(source if isinstance(source, bytes) else Path(source).read_bytes())
    try:
        rows = [(line, cells) for line, cells in _numbered(text) if any(cell.strip(BLANK) for cell in cells)]
    except csv.Error:
        message = "metadata.csv is no valid CSV; look for a quotation mark that is not closed"
        raise MetadataError(message) from None
    if not rows:
        return MetadataTable()
    columns = _columns(rows[0][1])
    problems: list[str] = []
    exact: dict[str, Mapping[str, str]] = {}
    globs: dict[str, Mapping[str, str]] = {}
    lines: dict[str, int] = {}
    for line, cells in rows[1:]:
        values = dict.fromkeys(columns, "")
        values.update(zip(columns, (cell.strip(BLANK) for cell in cells), strict=False))
        key = unicodedata.normalize("NFC", values.pop(_ID)).removeprefix("./")
        if any(cell.strip(BLANK) for cell in cells[len(columns) :]):
            problems.append(f"line {line} has more cells than there are columns")
        elif not key:
            problems.append(f"line {line} has no doc_id")
        elif key in lines:
            if dict(exact.get(key) or globs[key]) != values:
                problems.append(f"lines {lines[key]} and {line} are about the same doc_id and differ")
        else:
            lines[key] = line
            (globs if is_glob(key) else exact)[key] = MappingProxyType(values)
    if problems:
        message = "metadata.csv: " + "; ".join(problems[:20])
        if len(problems) > 20:
            message += f"; and {len(problems) - 20} more"
        raise MetadataError(message)
    return MetadataTable(MappingProxyType(exact), tuple(globs.items()), MappingProxyType(lines))


def _decode(raw: bytes) -> str:
    encoding = "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        message = "metadata.csv is not UTF-8; save it as 'CSV UTF-8'"
        raise MetadataError(message) from None


def _numbered(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records with the number of their first line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    for cells in reader:
        yield line, cells
        line = reader.line_num + 1


def _columns(header: list[str]) -> list[str]:
    columns = [unicodedata.normalize("NFKC", cell).strip(BLANK).casefold() for cell in header]
    while columns and not columns[-1]:
        columns.pop()
    allowed = (_ID, *METADATA_KEYS)
    problems = header_problems(columns, allowed, METADATA_KEYS)
    if len(columns) == 1 and re.search(r"[;\t|]", columns[0]):
        problems.append("the columns are not separated by commas")
    if problems:
        message = f"metadata.csv: {'; '.join(problems)}; allowed are {', '.join(allowed)}"
        raise MetadataError(message)
    return columns


@dataclass(frozen=True, slots=True)
class ResolvedMetadata:
    """A document's metadata and label after all sources were asked (SPEC 1.7, 1.8).

    Attributes:
        title, topic, entity, geography, period, language, valid_as_of: '' where nobody said anything.
        sensitivity: a label of the lattice.
        label_reason: who decided the label.
        problems: what is to be reported about the document's metadata; no text of the document.
    """

    title: str = ""
    topic: str = ""
    entity: str = ""
    geography: str = ""
    period: str = ""
    language: str = ""
    valid_as_of: str = ""
    sensitivity: str = Sensitivity.RESTRICTED.value
    label_reason: str = ""
    problems: tuple[str, ...] = ()


_NO_FRONT_MATTER = FrontMatter()


def resolve_metadata(
    doc_id: str,
    *,
    table: MetadataTable,
    verdict: LabelVerdict,
    front_matter: FrontMatter = _NO_FRONT_MATTER,
    file_title: str = "",
    policy: SensitivityPolicy | None = None,
) -> ResolvedMetadata:
    """Return the metadata and the label of one document (SPEC 1.7, 1.8).

    Each name takes its first value in the order of the sources. An exact row with a ``sensitivity`` column is a
    human decision and gives the label alone, lower than the policy's too; without one the label is the highest of
    the policy's verdict, the glob row's and the front matter's. A label outside the lattice, an empty one too, is
    RESTRICTED and a problem; so is front matter that cannot be parsed.

    Args:
        doc_id: the document.
        table: the rows of ``metadata.csv``.
        verdict: what the policy says about the path and the text.
        front_matter: the document's front matter, if its format has one.
        file_title: the title that the file itself states.
        policy: its keywords and markings are looked for in the values too: they are shown with the document.
    """
    row, glob_row = table.row_for(doc_id), table.globs_for(doc_id)
    derived = {"title": _one_line(file_title), "period": period_from_filename(doc_id)}
    sources = [source for source in (row, glob_row, front_matter.values, derived) if source]
    values = dict.fromkeys(_DESCRIPTIVE, "")
    for source in reversed(sources):
        values |= {name: value for name in source.keys() & values.keys() if (value := _one_line(source[name]))}
    findings = explain_words(list(values.items()), policy) if policy is not None else ()
    label, reason, problems = _label(row, glob_row, front_matter, verdict, findings)
    return ResolvedMetadata(**values, sensitivity=label, label_reason=reason, problems=tuple(problems))


def _label(
    row: Mapping[str, str] | None,
    glob_row: Mapping[str, str] | None,
    front_matter: FrontMatter,
    verdict: LabelVerdict,
    findings: Sequence[Finding],
) -> tuple[str, str, list[str]]:
    problems = [*verdict.problems, front_matter.problem] if front_matter.problem else [*verdict.problems]
    said: list[tuple[Sensitivity, str]] = []
    for source, reason in ((row, ROW_REASON), (glob_row, GLOB_REASON), (front_matter.values, FRONT_MATTER_REASON)):
        if source is None or "sensitivity" not in source:
            continue
        raw = source["sensitivity"]
        if not is_known_label(raw):
            what = "is not in the lattice" if raw.strip(BLANK) else "is empty"
            problems.append(f"the label in the {reason} {what}, so the document is RESTRICTED")
        said.append((read_label(raw), reason))
    if row is not None and "sensitivity" in row:
        label, reason = said[0]
        return label.value, reason, problems
    said.insert(0, (read_label(verdict.label), verdict.reason))
    said += [(read_label(finding.level), reason_of(finding)) for finding in findings]
    if front_matter.problem:
        said.append((Sensitivity.RESTRICTED, UNPARSED_REASON))
    # The first of equals: who said it first is the reason.
    label, reason = max(said, key=lambda item: item[0].rank)
    return label.value, reason, problems


def _one_line(value: str) -> str:
    """Return a value as one line, since tables, locators and citations hold it."""
    return " ".join(normalise_text(value).split()) if value else ""
