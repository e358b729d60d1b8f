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
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from ragspine_assets.documents.citations import DocumentNames, fold_path
from ragspine_assets.documents.frontmatter import METADATA_KEYS, FrontMatter
from ragspine_assets.documents.headers import header_problems
from ragspine_assets.documents.normalise import BLANK, normalise_text
from ragspine_assets.documents.period import period_from_filename
from ragspine_assets.documents.source import METADATA_FILE, UnsafeFileError, read_regular
from ragspine_assets.errors import RagspineError
from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.globs import glob_regex
from ragspine_assets.policy.labelling import Finding, LabelVerdict, SensitivityPolicy, explain_words, reason_of
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, read_label

_ID = "doc_id"
_MAX_BYTES = 256 << 20
_DESCRIPTIVE = tuple(name for name in METADATA_KEYS if name != "sensitivity")
_EMPTY: Mapping[str, str] = MappingProxyType({})

ROW_REASON = "row of metadata.csv"
GLOB_REASON = "glob row of metadata.csv"
FRONT_MATTER_REASON = "front matter"
SPELLED_REASON = "metadata.csv: a row that spells the path in another way"
UNPARSED_REASON = "front matter that cannot be parsed"


class MetadataError(RagspineError, ValueError):
    """A ``metadata.csv`` that cannot be used; the message lists every fault by line and quotes no cell."""


@dataclass(frozen=True, slots=True)
class SpelledRow:
    """A row with a label whose path is no document's, as it is written.

    Attributes:
        line: where it stands in ``metadata.csv``.
        path: its path or glob.
        label: what it says.
        named: the documents that the path names once folded; empty if it names none.
    """

    line: int
    path: str
    label: Sensitivity
    named: frozenset[str]

    @property
    def reason(self) -> str:
        """The reason of a label that comes from it."""
        return f"{SPELLED_REASON} (line {self.line})"


@dataclass(frozen=True)
class MetadataTable:
    """The rows of ``metadata.csv``; the empty table is the default.

    Attributes:
        exact: ``doc_id`` (NFC) to the row's cells, stripped; every column of the file is present.
        globs: ``(glob, cells)`` in the order of the file.
        lines: key of each row (path or glob) to its line in the file.
        missing: why there are no rows, as in "is not there"; '' where there are some, or nobody looked for a file.
        refused: whether that is because the file may not or cannot be read; then it may have said anything.
    """

    exact: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    globs: tuple[tuple[str, Mapping[str, str]], ...] = ()
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    missing: str = field(default="", compare=False)
    refused: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.exact) + len(self.globs)

    def __bool__(self) -> bool:
        """A table is there also when it has no rows."""
        return True

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

    def spelled_differently(self, doc_ids: Collection[str], gone: Collection[str] = ()) -> tuple[SpelledRow, ...]:
        """Return the rows with a label that match no document as they are written, and what they name once folded.

        Slashes, case, width, characters that do not show, ``./``, ``..``, the ending, a folder: whoever wrote a label
        meant something by the path, so what it may name gets at least that label (SPEC 1.8).

        Args:
            doc_ids: the documents there are.
            gone: documents that there were: a row of one of them names another only where no more than case, width or
                slashes tell them apart. That a file is gone says nothing about the others.
        """
        found: list[SpelledRow] = []
        names = DocumentNames(doc_ids)
        folded: dict[str, str] = {}
        for key in self.unmatched(doc_ids):
            cells = self._literal[key] if key in self._literal else self.exact[key]
            if "sensitivity" not in cells:
                continue
            named = names.same_path(key)
            if is_glob(key) and not named:
                folded = folded or {doc_id: fold_path(doc_id) for doc_id in doc_ids}
                pattern = re.compile(r"(?:.*/)?" + glob_regex(fold_path(key)) + r"\Z", re.DOTALL)
                named = frozenset(doc_id for doc_id, path in folded.items() if pattern.match(path))
            elif not named and key not in gone:
                named = names.named(key, folders=True)
            found.append(SpelledRow(self.lines.get(key, 0), key, read_label(cells["sensitivity"]), named))
        return tuple(found)

    def __getstate__(self) -> dict[str, object]:
        """Let a table travel between processes, which read-only mappings do not."""
        return {
            "exact": {key: dict(cells) for key, cells in self.exact.items()},
            "globs": tuple((glob, dict(cells)) for glob, cells in self.globs),
            "lines": dict(self.lines),
            "missing": self.missing,
            "refused": self.refused,
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
        MetadataError: as for `load_metadata_table`, and if the file may not or cannot be read.
    """
    table = read_metadata_table(root)
    if table.refused:
        message = f"metadata.csv of the source {table.missing}"
        raise MetadataError(message)
    return table


def read_metadata_table(root: str | Path) -> MetadataTable:
    """Read ``metadata.csv`` of a source folder, or say why there is none; for whoever judges what is missing (SPEC 1.8).

    No link is followed out of the source, and nothing but a regular file is opened.

    Raises:
        MetadataError: as for `load_metadata_table`.
    """
    base = os.path.realpath(root)
    path = os.path.join(base, METADATA_FILE)
    try:
        if os.path.islink(path):
            path = os.path.realpath(path, strict=True)
            if not path.startswith(base.rstrip("/") + "/"):
                return MetadataTable(
                    missing="is a link that leaves the source; put the file itself into the folder", refused=True
                )
        # Without O_NONBLOCK a pipe would hang the run.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(os.path.join(base, METADATA_FILE)):
            missing = "is a link that leads nowhere; mount what it leads to, or put the file itself into the folder"
            return MetadataTable(missing=missing, refused=True)
        return MetadataTable(missing="is not there")
    except OSError as error:
        return _unreadable(error)
    try:
        data = read_regular(handle, _MAX_BYTES)
    except UnsafeFileError as problem:
        return MetadataTable(missing=f"{problem}; put a file there, or take it away", refused=True)
    except OSError as error:
        return _unreadable(error)
    finally:
        os.close(handle)
    table = load_metadata_table(data)
    return table if len(table) else replace(table, missing="holds no row" if data.strip() else "is empty")


def _unreadable(error: OSError) -> MetadataTable:
    why = os.strerror(error.errno).lower() if error.errno else type(error).__name__
    what = f"cannot be read ({why}); change the permissions of it or of its folder"
    return MetadataTable(missing=what, refused=True)


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


def is_table_of_metadata(suffix: str, text: str) -> bool:
    """Tell whether a document is a table of metadata by its columns: it lists paths, titles and labels, maybe secret ones.

    Args:
        suffix: the file's suffix; only spreadsheets and tables are looked at.
        text: its text as Markdown.
    """
    if suffix not in {".csv", ".xlsx", ".xls"}:
        return False
    for line in text[: 1 << 14].split("\n")[:20]:
        cells = [fold_text(re.sub(r"[\\*`\"]", "", cell)) for cell in re.split(r"[|,;\t]", line.strip(" |"))]
        cells = [re.sub(r"[ -]+", "_", cell) for cell in cells if cell]
        is_table = _ID in cells and len(cells) > 1
        if is_table and ("sensitivity" in cells or set(cells) <= {_ID, *METADATA_KEYS}):
            return True
    return False


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
    spelled: SpelledRow | None = None,
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
        spelled: the row with the highest label that spells the document's path in another way: the label is at least its.
    """
    row, glob_row = table.row_for(doc_id), table.globs_for(doc_id)
    derived = {"title": _one_line(file_title), "period": period_from_filename(doc_id)}
    sources = [source for source in (row, glob_row, front_matter.values, derived) if source]
    values = dict.fromkeys(_DESCRIPTIVE, "")
    for source in reversed(sources):
        values |= {name: value for name in source.keys() & values.keys() if (value := _one_line(source[name]))}
    findings = explain_words(list(values.items()), policy) if policy is not None else ()
    label, reason, problems = _label(row, glob_row, front_matter, verdict, findings)
    if spelled is not None and spelled.label > label:
        label, reason = spelled.label.value, spelled.reason
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
