"""Proofs over `raw_documents`: every file has a state, and no label is lower than its source says (SPEC 1.6, 1.8, 6.3)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import duckdb
import yaml

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.metadata import MetadataTable, metadata_table_of
from ragspine_assets.documents.source import SUPPORTED_SUFFIXES
from ragspine_assets.pipeline.documents import lost_labels, unmatched_rows
from ragspine_assets.policy import Sensitivity, SensitivityPolicy, document_reference, fold_text, read_label
from ragspine_assets.store.chunk_store import ChunkStore
from ragspine_assets.store.labels import rank_of
from ragspine_assets.store.references import reference_key, references
from ragspine_assets.store.text_batches import TEXTS, WITHIN, in_groups

from .result import AuditResult

_LABELS = ", ".join(f"'{label}'" for label in Sensitivity)


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


def audit_source(
    store: ChunkStore,
    root: str | Path,
    metadata: MetadataTable | None = None,
    default_level: str = Sensitivity.INTERNAL,
) -> AuditResult:
    """Every supported file below the source root has a state in the store (SPEC 1.6).

    Files that came after the last intake are counted as waiting; failed documents, documents without text, files with one
    id and rows of ``metadata.csv`` that match nothing are warnings. A row with a label above ``default_level`` that names
    no document, however it is read, is an error: something secret may be served without its label (SPEC 1.8).
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
            if doc_id in present:
                reference = document_reference(doc_id, reference_key(connection))
                result.warnings.append(
                    f"{reference}: two files have this id after NFC, the second is not read; rename it"
                )
                continue
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
        result.warnings += unmatched_rows(metadata, present, states.keys())
        for sentence in lost_labels(metadata, present | states.keys(), read_label(default_level)):
            result.violate(sentence)
    return result.conclude(
        f"All {result.checked} files are accounted for.",
        "files of the source have no state in the store though they were there at the last run, or rows of metadata.csv "
        "with a label that name no file. Correct the rows, then run refresh.",
    )


def _files_below(root: str | Path) -> Iterator[tuple[str, float]]:
    """Walk the folder plainly: ids of supported regular files, with the time of their last change of any kind."""
    base = os.fspath(root)
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
            if stat.S_ISREG(state.st_mode) and relative != "metadata.csv":
                yield doc_id, state.st_ctime


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
    known = {row[0] for row in connection.execute("SELECT doc_id FROM document").fetchall()}
    # What a row says of a path that is no document's, it says of the document that is spelled alike.
    alike: dict[str, Sensitivity] = {}
    for path, label in exact.items():
        if path not in known:
            alike[_alike(path)] = max(alike.get(_alike(path), Sensitivity.PUBLIC), read_label(label))
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
                wanted = max(wanted, alike.get(_alike(doc_id), Sensitivity.PUBLIC)) if alike else wanted
            except Exception:
                # One document that cannot be read must not hide the others; what cannot be proved counts as RESTRICTED.
                wanted = Sensitivity.RESTRICTED
            yield doc_id, held, wanted


def _alike(path: str) -> str:
    """Return what paths have in common that differ in slashes, case, width and what does not show."""
    parts = fold_text(path.replace("\\", "/")).replace("\\", "/").split("/")
    return "/".join(part.strip() for part in parts if part.strip() not in {"", "."})


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
