"""Proofs over what is stored: each re-derives one invariant by other code than the code that keeps it (SPEC 6.3).

An audit reads everything, never a flag that says so. What it returns may leave the store: counts, and up to ten document
references.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import yaml

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.metadata import MetadataTable, metadata_table_of
from ragspine_assets.documents.source import SUPPORTED_SUFFIXES
from ragspine_assets.pipeline.documents import unmatched_rows
from ragspine_assets.policy import Sensitivity, SensitivityPolicy, document_reference, fold_text, read_label
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.labels import rank_of
from ragspine_assets.store.references import reference_key, references
from ragspine_assets.store.schema import CHUNK_COLUMNS, TABLES
from ragspine_assets.store.text_batches import CHARACTERS, TEXTS, WITHIN, in_groups, read_group, text_sizes

MAX_EXAMPLES = 10
_LABELS = ", ".join(f"'{label}'" for label in Sensitivity)


@dataclass
class AuditResult:
    """The outcome of one audit.

    Attributes:
        message: one sentence for a person: what was found, where, and what to do.
        checked: how many things were looked at.
        violations: how many broke the invariant.
        examples: references of up to ten of them.
        warnings: things that break nothing but that somebody should look at.
        counts: further figures, by name.
    """

    message: str = ""
    checked: int = 0
    violations: int = 0
    examples: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the invariant holds."""
        return self.violations == 0

    def violate(self, example: str, times: int = 1) -> None:
        """Count a violation and keep it as an example while there is room."""
        self.violations += times
        if len(self.examples) < MAX_EXAMPLES and example not in self.examples:
            self.examples.append(example)

    def conclude(self, holds: str, broken: str) -> AuditResult:
        """Set the message: ``holds`` where nothing was found, else ``broken`` with figures and examples."""
        if self.passed:
            self.message = holds
        else:
            self.message = f"{self.violations} of {self.checked}: {broken} First: {', '.join(self.examples)}."
        return self


# -- raw_documents ---------------------------------------------------------------------------------------------------


def audit_labels(store: ChunkStore) -> AuditResult:
    """Every label is in the lattice, and each document's has a reason (SPEC 1.8)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute("SELECT count(*) FROM document").fetchone()
        result.checked = row[0] if row else 0
        for doc_id, n in connection.execute(
            f"SELECT doc_id, count(*) FROM document WHERE sensitivity NOT IN ({_LABELS}) OR trim(label_reason) = '' "
            "GROUP BY doc_id UNION ALL "
            f"SELECT doc_id, count(*) FROM narrative_chunk WHERE sensitivity NOT IN ({_LABELS}) GROUP BY doc_id "
            f"UNION ALL SELECT doc_id, count(*) FROM staged_chunk WHERE sensitivity NOT IN ({_LABELS}) GROUP BY doc_id "
            "ORDER BY doc_id"
        ).fetchall():
            result.violate(name(doc_id), 1 if n else 0)
        for label, n in connection.execute(
            "SELECT sensitivity, count(*) FROM document GROUP BY 1 ORDER BY 1"
        ).fetchall():
            result.counts[f"documents {label if label in Sensitivity.__members__ else 'outside the lattice'}"] = n
    return result.conclude(
        f"All {result.checked} documents carry a label of the lattice and the reason for it.",
        "documents have a label outside the lattice, or none of the reasons for it. Run refresh to label them again.",
    )


def audit_source(store: ChunkStore, root: str | Path, metadata: MetadataTable | None = None) -> AuditResult:
    """Every supported file below the source root has a state in the store (SPEC 1.6).

    Files that came after the last intake are counted as waiting; failed documents, documents without text and rows of
    ``metadata.csv`` that match nothing are warnings.
    """
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        states = dict(connection.execute("SELECT doc_id, status FROM document").fetchall())
        setting = connection.execute("SELECT value FROM store_setting WHERE name = 'last_intake_at'").fetchone()
        last = float(setting[0]) if setting else 0.0
        waiting = 0
        present: set[str] = set()
        for doc_id, changed in _files_below(root):
            result.checked += 1
            present.add(doc_id)
            if states.get(doc_id, "removed") != "removed":
                continue
            if changed > last:
                waiting += 1
            else:
                result.violate(name(doc_id))
        gone = sum(status != "removed" and doc_id not in present for doc_id, status in states.items())
        result.counts = {
            "files": result.checked,
            "waiting for the next run": waiting,
            "gone since the last run": gone,
            **{f"documents {status}": n for status, n in sorted(Counter(states.values()).items())},
        }
        for doc_id, status, reason in connection.execute(
            "SELECT doc_id, status, reason FROM document WHERE status IN ('failed', 'no_text') ORDER BY status, doc_id"
        ).fetchall():
            result.warnings.append(f"{name(doc_id)} {status}: {reason or 'the file holds no text'}")
    if metadata is not None:
        result.warnings += unmatched_rows(metadata, present)
    return result.conclude(
        f"All {result.checked} files are accounted for.",
        "files of the source have no state in the store though they were there at the last run. Run refresh.",
    )


def _files_below(root: str | Path) -> Iterator[tuple[str, float]]:
    """Walk the folder plainly: ids of supported regular files, with the time of their last change of any kind."""
    base = os.fspath(root)
    seen: set[str] = set()
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        below = os.path.relpath(folder, base)
        for file_name in sorted(names):
            if file_name.startswith((".", "~$")) or os.path.splitext(file_name)[1].lower() not in SUPPORTED_SUFFIXES:
                continue
            relative = file_name if below == os.curdir else os.path.join(below, file_name)
            doc_id = unicodedata.normalize("NFC", relative.replace(os.sep, "/"))
            try:
                doc_id.encode()
                state = os.lstat(os.path.join(folder, file_name))
            except (UnicodeEncodeError, FileNotFoundError):
                continue
            if stat.S_ISREG(state.st_mode) and relative != "metadata.csv" and doc_id not in seen:
                yield doc_id, state.st_ctime
            seen.add(doc_id)


def audit_source_labels(store: ChunkStore, root: str | Path, policy: SensitivityPolicy) -> AuditResult:
    """No document in the store has a lower label than its source says now (SPEC 1.8, 6.3).

    The label is derived again from ``metadata.csv``, the file's front matter, its path and the policy's keywords, from
    the folder as it is at this moment.
    """
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        lowest = dict(
            connection.execute(
                f"SELECT doc_id, min({rank_of('sensitivity')}) FROM narrative_chunk GROUP BY doc_id"
            ).fetchall()
        )
        for doc_id, held_label, wanted in _labels_of_source(connection, Path(root), policy):
            result.checked += 1
            if min(read_label(held_label).rank, lowest.get(doc_id, 3)) < wanted.rank:
                result.violate(name(doc_id) if wanted is not Sensitivity.RESTRICTED else _hidden(connection, doc_id))
    return result.conclude(
        f"None of {result.checked} documents has a lower label than its source says now.",
        "documents have a lower label in the store than their source says now. Run refresh before anything is served.",
    )


def labels_of_source(store: ChunkStore, root: str | Path, policy: SensitivityPolicy) -> dict[str, Sensitivity]:
    """Return the label of each document of the store as its source says it at this moment, before any run applied it.

    Where the source says nothing, the label is PUBLIC: the store's own may be higher and counts as well.
    """
    with store.connect() as connection:
        return {doc_id: label for doc_id, _, label in _labels_of_source(connection, Path(root), policy)}


def _labels_of_source(
    connection: duckdb.DuckDBPyConnection, root: Path, policy: SensitivityPolicy
) -> Iterator[tuple[str, str, Sensitivity]]:
    """Give each document with the label that the store has and the one that the source says now."""
    exact, globs = _label_rows(root)
    # Without keywords no text is asked for, and all documents are one group.
    words = bool(policy.restricted_keywords)
    sizes = connection.execute("SELECT doc_id, characters * ?::INT FROM document ORDER BY doc_id", [words]).fetchall()
    query = (
        (TEXTS if words else "")
        + "SELECT d.doc_id, d.sensitivity, d.status, d.suffix, d.content_hash, coalesce(d.front_matter, '') AS front_matter, "
        + ("coalesce(t.text, '') AS text" if words else "'' AS text")
        + f" FROM document d {'LEFT JOIN _text t USING (doc_id)' if words else ''} SEMI JOIN _group USING (doc_id) "
        f"WHERE d.doc_id {WITHIN} ORDER BY d.doc_id"
    )
    for group in in_groups(connection, sizes, query):
        for doc_id, held, *state in zip(*(column.to_pylist() for column in group.columns), strict=True):
            try:
                wanted = _label_now(_State(doc_id, *state), root, exact, globs, policy)
            except Exception:
                # One document that cannot be read must not hide the others; what cannot be proved counts as RESTRICTED.
                wanted = Sensitivity.RESTRICTED
            yield doc_id, held, wanted


def _hidden(connection: duckdb.DuckDBPyConnection, doc_id: str) -> str:
    return document_reference(doc_id, reference_key(connection))


def _label_rows(root: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Read only labels from ``metadata.csv``: those of exact paths and those of globs, in order."""
    table = metadata_table_of(root)
    exact = {doc_id: cells["sensitivity"] for doc_id, cells in table.exact.items() if "sensitivity" in cells}
    globs = [(glob, cells["sensitivity"]) for glob, cells in table.globs if "sensitivity" in cells]
    return exact | {glob: label for glob, label in globs if glob not in exact}, globs


class _State(NamedTuple):
    """What the store remembers of a document's file."""

    doc_id: str
    status: str
    suffix: str
    content_hash: str
    front_matter: str
    text: str


def _label_now(
    row: _State,
    root: Path,
    exact: Mapping[str, str],
    globs: list[tuple[str, str]],
    policy: SensitivityPolicy,
) -> Sensitivity:
    doc_id = row.doc_id
    if doc_id in exact:
        return read_label(exact[doc_id])
    labels = [Sensitivity.PUBLIC]
    matching = [label for pattern, label in globs if re.fullmatch(_glob(pattern), doc_id, re.DOTALL)]
    labels += [read_label(matching[-1])] if matching else []
    text, block = row.text, row.front_matter
    if row.suffix in {".md", ".markdown", ".txt"} and row.status != "removed":
        data = _bytes_of(os.path.join(root, doc_id))
        if data is not None and hashlib.sha256(data).hexdigest() != row.content_hash:
            try:
                text = decode_text(data).text
            except UndecodableText:
                text = ""
            found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|$)", text, re.DOTALL)
            block = found[1] if found and row.suffix != ".txt" else ""
    labels += _front_matter_label(block)
    for pattern in map(fold_text, filter(None, policy.restricted_filename_patterns)):
        folded_path = fold_text(doc_id)
        globbed = re.search(r"[*?[]", pattern) and re.search(f"(?:^|/){_glob(pattern)}$", folded_path, re.DOTALL)
        if pattern in folded_path or globbed:
            labels.append(Sensitivity.RESTRICTED)
    if text and policy.restricted_keywords:
        folded = fold_text(text)
        if any(word and fold_text(word) in folded for word in policy.restricted_keywords):
            labels.append(Sensitivity.RESTRICTED)
    return max(labels, key=lambda label: label.rank)


def _glob(pattern: str) -> str:
    """Translate a glob: ``*`` and ``?`` stay inside one name, ``**`` does not."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        known.get(p) or (p.replace("[!", "[^") if p[:1] == "[" and p[-1:] == "]" else re.escape(p)) for p in parts
    )


def _bytes_of(path: str) -> bytes | None:
    try:
        # A pipe without a writer would block its reader for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            return None
        return b"".join(iter(partial(os.read, descriptor, state.st_size + 1), b""))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _front_matter_label(block: str) -> list[Sensitivity]:
    """Read a label as plain text: no date, number or tag in the block can be wrong, since nothing is made of them."""
    if not block:
        return []
    try:
        values = yaml.load(block, Loader=yaml.BaseLoader)  # noqa: S506 - makes strings, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError):
        return [Sensitivity.RESTRICTED]
    if values in (None, ""):
        return []
    if not isinstance(values, dict):
        return [Sensitivity.RESTRICTED]
    said = [value for key, value in values.items() if re.sub(r"[\W_]", "", fold_text(str(key))) == "sensitivity"]
    return [read_label(", ".join(map(str, value)) if isinstance(value, list) else value) for value in said]


# -- chunks ----------------------------------------------------------------------------------------------------------

_TEXTS = f"""
    SELECT doc_id, text FROM document_text SEMI JOIN _group USING (doc_id) WHERE doc_id {WITHIN} ORDER BY doc_id
"""
_NEWLINE = re.compile("\n")
# What a document gives to all its chunks; its label is another check's.
_META = tuple(name for name in CHUNK_COLUMNS if name in TABLES["document"] and name not in {"doc_id", "sensitivity"})
# Documents and chunks that lack each other, and chunks that say of themselves what their document does not.
_MISSTATED = f"""
    SELECT doc_id, 'no text' FROM document ANTI JOIN document_text USING (doc_id) WHERE status = 'ingested'
    UNION ALL SELECT doc_id, 'more than one text' FROM document_text GROUP BY doc_id HAVING count(*) > 1
    UNION ALL SELECT doc_id, 'no document' FROM staged_chunk ANTI JOIN document USING (doc_id) GROUP BY doc_id
    UNION ALL SELECT s.doc_id, 'locator' FROM staged_chunk s WHERE source_locator != s.doc_id || '#para' || para_start
        || CASE para_end WHEN para_start THEN '' ELSE '-' || para_end END GROUP BY s.doc_id
    UNION ALL SELECT s.doc_id, 'metadata' FROM staged_chunk s JOIN document d USING (doc_id)
    WHERE {" OR ".join(f"s.{name} IS DISTINCT FROM d.{name}" for name in _META)} GROUP BY s.doc_id
    ORDER BY ALL
"""
# Row by row: to gather a document's chunks in lists takes twice the time.
_CHUNKS = f"""
    SELECT doc_id, seq, char_start, char_end, para_start, para_end, text FROM staged_chunk SEMI JOIN _group USING (doc_id)
    WHERE doc_id {WITHIN} ORDER BY doc_id, seq
"""


def audit_chunk_text(store: ChunkStore) -> AuditResult:
    """Staged chunks quote the canonical text at their offsets, and together cover all of it (SPEC 2.4)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        for documents in in_groups(connection, text_sizes(connection), _TEXTS):
            result.checked += documents.num_rows
            for doc_id, why in _misquoted_of(connection, documents):
                result.violate(f"{name(doc_id)} ({why})")
        for doc_id, why in connection.execute(_MISSTATED).fetchall():
            result.violate(f"{name(doc_id)} ({why})")
    return result.conclude(
        f"The chunks of all {result.checked} documents quote their text exactly and cover all of it.",
        "documents have chunks that do not quote or cover their text. Run refresh; if it stays, report the chunker.",
    )


def _misquoted_of(connection: duckdb.DuckDBPyConnection, documents: pa.Table) -> Iterator[tuple[str, str]]:
    """Give each document of a group whose chunks are wrong, and what is wrong with them."""
    doc_ids = documents.column("doc_id").to_pylist()
    chunks = read_group(connection, doc_ids, _CHUNKS)
    owners, seqs, starts, ends, firsts, lasts = (column.to_pylist() for column in chunks.columns[:-1])
    texts = chunks.column("text").combine_chunks()
    counts = Counter(owners)
    # Counted in the order of rows.
    behind = dict(zip(counts, accumulate(counts.values()), strict=True))
    for doc_id, text in zip(doc_ids, documents.column("text"), strict=True):
        last = behind.get(doc_id, 0)
        own = slice(last - counts[doc_id], last)
        # The texts of one document at a time: Python's strings take much more room than what they are made from.
        quotes = texts[own].to_pylist()
        canonical = _canonical(text.as_py())
        why = _misquoted(canonical, seqs[own], starts[own], ends[own], quotes)
        why = why or _misnumbered(canonical, starts[own], ends[own], firsts[own], lasts[own])
        if why:
            yield doc_id, why


_BLANK = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "".join(
    map(chr, (0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF))
)


def _canonical(text: str) -> str:
    """Derive the canonical text again, from the rule and not from the code that stored it (SPEC 1.5)."""
    return "\n".join([paragraph for line in text.split("\n") if (paragraph := line.strip(_BLANK))])


def _misquoted(canonical: str, seqs: list[int], starts: list[int], ends: list[int], texts: list[str]) -> str:
    """Name what is wrong with one document's chunks, or return ``''``."""
    if not seqs:
        return "no chunks" if canonical else ""
    if seqs != list(range(len(seqs))):
        return "gap in seq"
    if min(starts) < 0 or not all(texts):
        return "text differs"
    if [canonical[start:end] for start, end in zip(starts, ends, strict=True)] != texts:
        return "text differs"
    if [end - start for start, end in zip(starts, ends, strict=True)] != list(map(len, texts)):
        return "text differs"
    if starts != sorted(starts):
        return "goes back"
    # What lies between the farthest end so far and the next start.
    covered = accumulate(ends, max, initial=0)
    if any(
        start > end and canonical[end:start].strip()
        for end, start in zip(covered, [*starts, len(canonical)], strict=True)
    ):
        return "text left out"
    return ""


def _misnumbered(canonical: str, starts: list[int], ends: list[int], firsts: list[int], lasts: list[int]) -> str:
    """Tell whether the paragraphs that chunks name are those they lie in: a paragraph ends at each newline."""
    breaks = [place.start() for place in _NEWLINE.finditer(canonical)]
    for start, end, first, last in zip(starts, ends, firsts, lasts, strict=True):
        if bisect_left(breaks, start) + 1 != first or bisect_left(breaks, end) + 1 != last:
            return "paragraphs"
    return ""


# A window that does not hold its chunk, one of no known text, and a parent span that does not hold its chunk's span, or is no span: behind the
# prefix that both locators share stand two numbers of paragraphs, or one that is both.
_BREAKS = """
    SELECT doc_id, broken, count(*) FROM (
        SELECT doc_id, CASE
            WHEN window_text != '' AND NOT contains(window_text, text) THEN 'window'
            WHEN doc_id NOT IN (SELECT doc_id FROM document_text) THEN 'no text'
            WHEN parent_locator != '' AND NOT coalesce(
                suffix(source_locator, span) AND starts_with(parent_locator, prefix)
                AND TRY_CAST(split_part(numbers, '-', 1) AS BIGINT) <= para_start
                AND para_end <= TRY_CAST(split_part(numbers, '-', -1) AS BIGINT)
                AND length(string_split(numbers, '-')) <= 2, FALSE) THEN 'parent span'
            END AS broken
        FROM (
            SELECT doc_id, text, window_text, source_locator, parent_locator, para_start, para_end,
                CASE para_start WHEN para_end THEN '' ELSE para_start || '-' END || para_end AS span,
                left(source_locator, length(source_locator) - length(span)) AS prefix,
                substr(parent_locator, length(prefix) + 1) AS numbers
            FROM staged_chunk WHERE window_text != '' OR parent_locator != ''
        )
    ) WHERE broken IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_WINDOWS = f"""
    SELECT doc_id, window_text, min(char_start) AS char_start, count(*) AS times FROM staged_chunk
    SEMI JOIN _group USING (doc_id) WHERE window_text != '' AND doc_id {WITHIN} GROUP BY doc_id, window_text
"""


def audit_windows(store: ChunkStore) -> AuditResult:
    """Windows contain their child, parent spans contain its span, both from its own document (SPEC 2.6, 2.7)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute(
            "SELECT count(*), count(*) FILTER (window_text != '') FROM staged_chunk "
            "WHERE window_text != '' OR parent_locator != ''"
        ).fetchone()
        result.checked, windows = row or (0, 0)
        for doc_id, broken, times in connection.execute(_BREAKS).fetchall() if result.checked else ():
            result.violate(f"{name(doc_id)} ({broken})", times)
        for documents in in_groups(connection, text_sizes(connection), _TEXTS) if windows else ():
            for doc_id, times in _windows_from_elsewhere(connection, documents):
                result.violate(f"{name(doc_id)} (window)", times)
    return result.conclude(
        f"All {result.checked} windows hold their chunk and come from its own document."
        if result.checked
        else "The chunker in use gives no windows.",
        "windows do not hold their chunk, or come from elsewhere. Run refresh; if it stays, report the chunker.",
    )


def _windows_from_elsewhere(connection: duckdb.DuckDBPyConnection, documents: pa.Table) -> Iterator[tuple[str, int]]:
    """Give the windows that are no part of their document's text: the document, and how many chunks show it."""
    doc_ids = documents.column("doc_id").to_pylist()
    found = read_group(connection, doc_ids, _WINDOWS)
    windows: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for doc_id, *window in zip(*(column.to_pylist() for column in found.columns), strict=True):
        windows[doc_id].append(tuple(window))
    for doc_id, text in zip(doc_ids, documents.column("text"), strict=True):
        canonical = _canonical(text.as_py()) if doc_id in windows else ""
        for window, place, times in windows.get(doc_id, ()):
            # Looked for around its chunk first: a long document may have thousands of windows.
            near = slice(max(place - len(window), 0), place + len(window))
            if window not in canonical[near] and window not in canonical:
                yield doc_id, times


def audit_chunk_labels(store: ChunkStore) -> AuditResult:
    """Staged chunks carry their document's label, and no version has a lower one (SPEC 2.4, 3.4).

    A version may have a higher one: where a human lowered the label, the new version is written after this is proved.
    """
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute("SELECT count(*) FROM staged_chunk").fetchone()
        result.checked = row[0] if row else 0
        for doc_id, n in connection.execute(
            f"""
            SELECT doc_id, count(*) FROM (
                SELECT s.doc_id FROM staged_chunk s JOIN document d USING (doc_id)
                WHERE s.sensitivity IS DISTINCT FROM d.sensitivity
                UNION ALL
                SELECT c.doc_id FROM narrative_chunk c JOIN document d USING (doc_id)
                WHERE {rank_of("c.sensitivity")} < {rank_of("d.sensitivity")}
            ) GROUP BY doc_id ORDER BY doc_id
            """
        ).fetchall():
            result.violate(name(doc_id), n)
    return result.conclude(
        f"All {result.checked} chunks carry the label of their document.",
        "chunks carry another label than their document. Run refresh to write them again.",
    )


# -- chunk_store -----------------------------------------------------------------------------------------------------


_HELD = """
    SELECT doc_id, max(char_end) FROM (
        SELECT doc_id, char_end FROM staged_chunk
        UNION ALL SELECT doc_id, char_end FROM narrative_chunk WHERE active
    ) GROUP BY doc_id ORDER BY doc_id
"""
# A document that came through the API is staged nowhere and has no state: nothing is said about it.
_OURS = "doc_id IN (SELECT doc_id FROM document UNION SELECT doc_id FROM staged_chunk)"
_OTHER_COUNT = f"""
    SELECT doc_id FROM (SELECT doc_id, count(*) AS n FROM staged_chunk GROUP BY doc_id) s
    FULL JOIN (SELECT doc_id, count(*) AS n FROM narrative_chunk WHERE active GROUP BY doc_id) l USING (doc_id)
    WHERE s.n IS DISTINCT FROM l.n AND {_OURS}
"""
# Windows repeat and may be thousands of characters long: of them a digest is kept for the comparison.
_ROW = ", ".join(name for name in CHUNK_COLUMNS if name != "window_text") + (
    ", CASE window_text WHEN '' THEN '' ELSE md5(window_text) END AS window_text"
)
_OTHER_ROWS = f"""
    SELECT DISTINCT doc_id FROM (SELECT {_ROW} FROM staged_chunk WHERE doc_id {WITHIN}) s
    FULL JOIN (SELECT {_ROW} FROM narrative_chunk WHERE active AND doc_id {WITHIN}) l USING (doc_id, seq)
    WHERE ({" OR ".join(f"s.{name} IS DISTINCT FROM l.{name}" for name in CHUNK_COLUMNS if name not in ("doc_id", "seq"))})
      AND {_OURS}
"""


def audit_versions(store: ChunkStore) -> AuditResult:
    """One active version per document, versions without gaps, and the active one equals what is staged (SPEC 3.3)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute("SELECT count(DISTINCT doc_id) FROM narrative_chunk").fetchone()
        result.checked = row[0] if row else 0
        for doc_id, why in connection.execute(
            """
            SELECT doc_id, 'several active versions' FROM narrative_chunk WHERE active
            GROUP BY doc_id HAVING count(DISTINCT version) > 1
            UNION ALL
            SELECT doc_id, 'gap in versions' FROM narrative_chunk
            GROUP BY doc_id HAVING max(version) != count(DISTINCT version) OR min(version) != 1
            UNION ALL
            SELECT doc_id, 'gap in seq' FROM narrative_chunk
            GROUP BY doc_id, version HAVING max(seq) + 1 != count(*) OR count(DISTINCT seq) != count(*)
            UNION ALL
            SELECT doc_id, 'an older version is active' FROM narrative_chunk
            GROUP BY doc_id HAVING max(version) FILTER (active) < max(version)
            ORDER BY 1, 2
            """
        ).fetchall():
            result.violate(f"{name(doc_id)} ({why})")
        differing = {doc_id for (doc_id,) in connection.execute(_OTHER_COUNT).fetchall()}
        sizes = connection.execute(_HELD).fetchall()
        for group in in_groups(connection, sizes, _OTHER_ROWS, limit=4 * CHARACTERS):
            differing.update(group.column("doc_id").to_pylist())
        for doc_id in sorted(differing):
            result.violate(f"{name(doc_id)} (active version differs from what is staged)")
    return result.conclude(
        f"All {result.checked} documents have one active version at most, without gaps, equal to what is staged.",
        "documents break the rule of versions. Run refresh; if it stays, restore the store from a copy.",
    )


def audit_schema(store: ChunkStore) -> AuditResult:
    """Every table has every column, and rows older than a column read back with its default (SPEC 3.2)."""
    result = AuditResult()
    with store.connect() as connection:
        for table, columns in TABLES.items():
            present = {row[1]: row[4] for row in connection.execute(f"PRAGMA table_info('{table}')").fetchall()}
            result.checked += len(columns)
            for column in columns.keys() - present.keys():
                result.violate(f"{table}.{column} is missing")
            # A column of a store of another origin may have no default, and then may hold nulls.
            must = [c for c, kind in columns.items() if "NOT NULL" in kind and present.get(c) is not None]
            if not must:
                continue
            row = connection.execute(
                f"SELECT {', '.join(f'count(*) FILTER ({c} IS NULL)' for c in must)} FROM {table}"
            ).fetchone()
            for column, nulls in zip(must, row or (), strict=True):
                if nulls:
                    result.violate(f"{table}.{column} is null in {nulls} rows")
    return result.conclude(
        f"All {result.checked} columns of {len(TABLES)} tables are there, and no row lacks a value it must have.",
        "columns are missing or hold no value. Run refresh, which adds columns; restore a copy if rows hold nulls.",
    )
