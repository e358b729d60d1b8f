"""Proofs over what is published, by other code than the code that publishes (SPEC 6.3, 6.6)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.index.analysis import make_analyzer
from ragspine_assets.index.bm25 import K1, B, bm25_scores
from ragspine_assets.natural_order import natural_key
from ragspine_assets.policy import DomainProfile, Sensitivity, document_reference, read_label
from ragspine_assets.retrieval.narrative_index import NarrativeIndex
from ragspine_assets.serving.chunk_table import ChosenChunks, map_table, table_in_slices
from ragspine_assets.serving.leaks import isolation_traces
from ragspine_assets.serving.snapshot import Snapshot
from ragspine_assets.serving.snapshot_files import (
    CHUNKS,
    GRAPH_TABLES,
    SnapshotError,
    chosen_by_hand,
    current_name,
    damaged_files,
    deleted_folders,
    read_manifest,
    snapshot_folders,
    withdraw_current,
)
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.database import registered
from ragspine_assets.store.references import reference_key, references

if TYPE_CHECKING:
    from ragspine_assets.index.analysis import AnalyzerName
    from ragspine_assets.index.lexical import LexicalIndex
    from ragspine_assets.index.query import QueryTerm

NOTHING = "Nothing is published, so there is nothing to prove. `make run` publishes."

ROLLED_BACK = (
    "Somebody made an earlier release current by `ragspine rollback`: its files are compared with its manifest, its rows not "
    "with the store, until other content is published."
)

_UNPUBLISHED_COLUMNS = {"ingested_at", "active"}
_TOLERANCE = 1e-9
_QUERIES = 12
_WORD = 12
_READ = 1000
_ROWS = 4096


def _unpublished(root: Path) -> AuditResult | None:
    if current_name(root) is not None:
        return None
    return AuditResult(message=NOTHING, warnings=[NOTHING])


def _current(root: Path, result: AuditResult) -> Snapshot | None:
    """Open the current snapshot; one that cannot be opened breaks the invariant."""
    try:
        return Snapshot.open(root, verify=False)
    except SnapshotError as error:
        result.checked += 1
        result.violate(str(error))
        return None


def _labels_now(connection: duckdb.DuckDBPyConnection) -> tuple[dict[str, Sensitivity], set[str]]:
    """Return each document's label as it is now, and which documents are gone."""
    labels: dict[str, Sensitivity] = {}
    gone: set[str] = set()
    for doc_id, raw, status in connection.execute(
        "SELECT DISTINCT doc_id, sensitivity, '' FROM narrative_chunk WHERE active "
        "UNION SELECT doc_id, sensitivity, status FROM document"
    ).fetchall():
        label = read_label(raw)
        if label.rank >= labels.get(doc_id, Sensitivity.PUBLIC).rank:
            labels[doc_id] = label
        if status == "removed":
            gone.add(doc_id)
    return labels, gone


def audit_published_files(store: ChunkStore, root: str | Path) -> AuditResult:
    """The current snapshot holds exactly the store's servable rows, and every file is as it was published."""
    root = Path(root)
    if (nothing := _unpublished(root)) is not None:
        return nothing
    result = AuditResult()
    snapshot = _current(root, result)
    if snapshot is not None:
        result.checked += len(snapshot.manifest.files)
        by_hand = snapshot.path.name == chosen_by_hand(root)
        if by_hand:
            result.warnings.append(ROLLED_BACK)
        with store.connect() as connection, ThreadPoolExecutor(1) as thread:
            damaged = thread.submit(damaged_files, snapshot.path, snapshot.manifest)
            labels, gone = _labels_now(connection)
            try:
                if not by_hand:
                    _compare_chunks(connection, snapshot, labels, gone, result)
                    _compare_graph(connection, snapshot, labels, gone, result)
            except Exception:
                # What is damaged may not be readable; that it is damaged says enough.
                if not damaged.result():
                    raise
            for name in damaged.result():
                result.violate(f"{name} is not as it was published")
        result.counts["chunks"] = len(snapshot)
    return result.conclude(
        f"All {result.checked} documents, rows of the graph and files of the snapshot are those of the store.",
        "files, documents or rows of the graph differ between the snapshot and the store. Run refresh to publish again.",
    )


def _compare_chunks(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    labels: Mapping[str, Sensitivity],
    gone: set[str],
    result: AuditResult,
) -> None:
    name = references(connection)
    limit = read_label(snapshot.manifest.max_label)
    may = {
        doc_id: label
        for doc_id, label in labels.items()
        if doc_id not in gone and label <= limit and label is not Sensitivity.RESTRICTED
    }
    # What a chunk has is asked of the store, not of the list that the writer goes by.
    stored = {
        column: "VARCHAR" if dtype == "VARCHAR" else "BIGINT"
        for column, dtype, *_ in connection.execute("DESCRIBE narrative_chunk").fetchall()
        if column not in _UNPUBLISHED_COLUMNS
    }
    shown = set(map_table(snapshot.path / CHUNKS).schema.names)
    for column in sorted(stored.keys() - shown):
        result.violate(f"the column {column} of chunks is not published")
    columns = ", ".join(f"{name}::{dtype}" for name, dtype in stored.items() if name in shown and name != "sensitivity")
    connection.register("_may", pa.table({"doc_id": list(may), "label": [str(label) for label in may.values()]}))
    connection.execute("CREATE OR REPLACE TEMP TABLE _shown (doc_id VARCHAR, n BIGINT, h HUGEINT)")
    try:
        for part in table_in_slices(snapshot.path / CHUNKS):
            with registered(connection, _published=part):
                connection.execute(
                    "INSERT INTO _shown SELECT doc_id::VARCHAR, count(*),"
                    f" sum(hash({columns}, sensitivity::VARCHAR)::HUGEINT) FROM _published GROUP BY ALL"
                )
        rows = connection.execute(
            "WITH stored AS ("
            f"  SELECT doc_id, count(*) AS n, sum(hash({columns}, _may.label)::HUGEINT) AS h"
            "   FROM narrative_chunk JOIN _may USING (doc_id) WHERE active GROUP BY doc_id"
            "), shown AS (SELECT doc_id, sum(n) AS n, sum(h) AS h FROM _shown GROUP BY doc_id) "
            "SELECT doc_id, stored.n IS NULL, shown.n IS NULL, "
            "  stored.n IS NOT DISTINCT FROM shown.n AND stored.h IS NOT DISTINCT FROM shown.h "
            "FROM stored FULL JOIN shown USING (doc_id) ORDER BY doc_id"
        ).fetchall()
    finally:
        connection.execute("DROP TABLE _shown")
        connection.unregister("_may")
    for doc_id, unexpected, missing, equal in rows:
        result.checked += 1
        if not equal:
            how = "is published and may not be" if unexpected else "is missing" if missing else "differs"
            result.violate(f"{name(doc_id)} {how}")


def _compare_graph(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    labels: Mapping[str, Sensitivity],
    gone: set[str],
    result: AuditResult,
) -> None:
    limit = read_label(snapshot.manifest.max_label)

    @cache
    def is_open(document: str) -> bool:
        # What the store does not know, the profile among it, counts as INTERNAL.
        return document not in gone and labels.get(document, Sensitivity.INTERNAL) <= limit

    for table in GRAPH_TABLES:
        published = map_table(snapshot.served_from / f"{table}.arrow")
        columns = published.schema.names
        shown = set(zip(*(published.column(column).to_pylist() for column in columns), strict=True))
        result.checked += len(shown)
        place = {column: number for number, column in enumerate(columns)}
        unstored, missing = set(shown), set()
        stored = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
        while rows := stored.fetchmany(_ROWS):
            unstored.difference_update(rows)
            missing.update(row for row in rows if row not in shown and all(map(is_open, _named(row, place))))
        closed = {row for row in shown if not all(map(is_open, _named(row, place)))}
        if table == "graph_node":
            # A node whose source is closed may be there for another document's sake, with that source.
            known = set(connection.execute("SELECT type, id FROM graph_node").fetchall() if unstored else ())
            extra = {row for row in unstored if (row[place["type"]], row[place["id"]]) not in known} | closed
        elif table == "graph_edge":
            evidence = map_table(snapshot.served_from / "graph_evidence.arrow")
            supported = set(zip(*(evidence.column(column).to_pylist() for column in columns), strict=True))
            extra = unstored | (shown - supported)
            missing &= supported
        else:
            extra = unstored | closed
        for what, rows in (("may not be", extra), ("is missing", missing)):
            if rows:
                result.violate(f"{len(rows)} rows of {table}: what {what}", len(rows))


def _named(row: Sequence[object], place: Mapping[str, int]) -> Iterator[str]:
    """Yield the documents that a row of the graph names, given where each column is."""
    for column in ("source_doc_id", "source_locator"):
        if column in place and isinstance(value := row[place[column]], str):
            yield value.rpartition("#")[0] if "#" in value else value
    for kind, column in (("src_type", "src"), ("dst_type", "dst"), ("type", "id")):
        if kind in place and column in place and row[place[kind]] == "doc":
            value = row[place[column]]
            if isinstance(value, str):
                yield value


def audit_published_isolation(store: ChunkStore, root: str | Path, profile: DomainProfile | None = None) -> AuditResult:
    """No byte of the current snapshot holds something that only documents above its ``max_label`` say."""
    root = Path(root)
    if (nothing := _unpublished(root)) is not None:
        return nothing
    result = AuditResult()
    snapshot = _current(root, result)
    if snapshot is not None:
        result.checked += sum(entry.bytes for entry in snapshot.manifest.files.values())
        with store.connect() as connection:
            for reference in isolation_traces(connection, snapshot, profile):
                result.violate(f"something of {reference}")
        result.counts["bytes"] = result.checked
    return result.conclude(
        f"None of {result.checked:,} bytes is RESTRICTED text, a title, a path or an entity of a RESTRICTED document.",
        "bytes hold something of documents that may not be published. Delete the snapshot and run refresh.",
    )


def audit_published_labels(
    store: ChunkStore,
    root: str | Path,
    *,
    withdraw: bool = True,
    source_labels: Mapping[str, Sensitivity] | None = None,
) -> AuditResult:
    """No published document has a higher label now than its snapshot may hold, in the current one and all kept ones.

    Args:
        store: the chunk store.
        root: folder of the snapshots.
        withdraw: whether ``CURRENT`` is removed when the current snapshot holds such a document.
        source_labels: what the source says now, where no run has applied it yet; the higher label counts.
    """
    asked = source_labels or {}
    root = Path(root)
    result = AuditResult()
    try:
        current = current_name(root)
    except SnapshotError:
        current = None
    withdrawn = False
    with store.connect() as connection:
        open_name, key = references(connection), reference_key(connection)
        labels, _ = _labels_now(connection)
        for folder in snapshot_folders(root):
            broken = []
            try:
                limit = read_label(read_manifest(folder).max_label)
                for doc_id, published in _published_labels(connection, folder):
                    result.checked += 1
                    said = asked.get(doc_id, Sensitivity.PUBLIC)
                    now = max(labels.get(doc_id, Sensitivity.PUBLIC).rank, read_label(published).rank, said.rank)
                    if now > limit.rank or limit is Sensitivity.RESTRICTED:
                        secret = said is Sensitivity.RESTRICTED
                        broken.append(document_reference(doc_id, key) if secret else open_name(doc_id))
            except (SnapshotError, OSError, pa.ArrowException, KeyError):
                broken.append("a snapshot that cannot be read")
            for reference in broken:
                result.violate(reference)
            if broken and withdraw and folder.name == current:
                withdraw_current(root)
                withdrawn = True
    for _ in deleted_folders(root):
        result.violate("a snapshot whose deletion broke off, with its texts")
    if not result.checked and result.passed:
        result.warnings.append(NOTHING)
    return result.conclude(
        f"All {result.checked} published documents have labels that may be published." if result.checked else NOTHING,
        "published documents have a higher label now."
        + (" The current snapshot was withdrawn; readers see it by `is_current`." if withdrawn else "")
        + " Run refresh: it deletes every snapshot that holds them.",
    )


def _published_labels(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[tuple[str, str]]:
    """Return each document of a snapshot and the label it was published with.

    Arrow could group the rows too, but loading what it needs for that takes longer than everything else here.
    """
    table = map_table(folder / CHUNKS).select(["doc_id", "sensitivity"])
    # DuckDB believes what a file says about itself.
    table.validate(full=True)
    # On a connection of its own, since somebody may be reading from this one.
    with connection.cursor() as own, registered(own, _published=table):
        return own.execute("SELECT DISTINCT doc_id, sensitivity FROM _published ORDER BY ALL").fetchall()


def audit_ranking(root: str | Path, *, seed: int = 11, queries: int = _QUERIES) -> AuditResult:
    """The published index gives the scores and the order of BM25 by its definition (SPEC 4.3).

    Queries are drawn from the published texts, by a fixed seed. Up to 1,000 chunks all texts are read again and all
    scores compared with the definition; of more, so many are drawn, and their lengths, terms and scores are compared.
    """
    root = Path(root)
    if (nothing := _unpublished(root)) is not None:
        return nothing
    result = AuditResult()
    snapshot = _current(root, result)
    if snapshot is not None and len(snapshot):
        for name in snapshot.indexes:
            if name not in _PROOFS:
                result.violate(f"nothing proves the index {name}")
                continue
            try:
                _PROOFS[name](snapshot, result, np.random.default_rng(seed), queries)
            except (ValueError, IndexError):
                # An index that was damaged may point anywhere.
                result.violate("the index cannot be searched")
    return result.conclude(
        f"All {result.checked} scores are those of BM25, and equal scores are in the order of chunk ids.",
        "scores or places differ from BM25 by its definition. Run refresh; if it stays, report it.",
    )


def _texts_at(path: Path, positions: NDArray[np.integer]) -> dict[int, str]:
    """Return the texts of some rows, by position, ascending; what stands between them does not stay in memory."""
    texts: dict[int, str] = {}
    first = 0
    for part in table_in_slices(path):
        column = part.column("text")
        here = positions[np.searchsorted(positions, first) : np.searchsorted(positions, first + part.num_rows)].tolist()
        texts.update((position, column[position - first].as_py()) for position in here)
        first += part.num_rows
    return texts


def _compare_ranking(snapshot: Snapshot, result: AuditResult, rng: np.random.Generator, queries: int) -> None:
    analyzer = make_analyzer(cast("AnalyzerName", snapshot.manifest.analyzer))
    chunks, lexical = snapshot.chunks, snapshot.lexical
    languages = list(chunks.values["index_language"])
    codes = chunks.codes["index_language"]
    sources = rng.integers(len(chunks), size=queries).tolist()
    read = rng.choice(len(chunks), size=min(len(chunks), _READ), replace=False)
    read.sort()
    place = chunks.positions if isinstance(chunks, ChosenChunks) else np.arange(len(chunks))
    drawn = np.union1d(sources, read)
    stored = _texts_at(snapshot.path / CHUNKS, place[drawn])
    texts = {position: stored[place.item(position)] for position in drawn.tolist()}
    asked = []
    for position in sources:
        words = texts[position].split()
        # Without spaces a line is one word: of a long one some characters are enough to ask for.
        asked.append(" ".join(words[one][:_WORD] for one in rng.integers(len(words), size=min(4, len(words))).tolist()))
    corpus = chunks.corpus(lexical)
    # What stands for each word of a query, and what each of that is worth, is the analyzer's; all else is counted again.
    queries_read = {query: corpus.read(query, analyzer)[0] for query in asked}
    wanted = {
        term for read_as in queries_read.values() for one in read_as for term in (*one.terms, *dict(one.variants))
    }
    # The texts that are drawn are read again; how often a term stands in all of them is what the index says, and is
    # proved on those that are drawn.
    documents, beside = [], []
    for position in read.tolist():
        language = languages[codes.item(position)]
        documents.append(analyzer.terms(texts[position], language))
        beside.append(analyzer.forms(texts[position], language))
    held = [
        Counter(filter(wanted.__contains__, [*tokens, *forms])) for tokens, forms in zip(documents, beside, strict=True)
    ]
    lengths, counted = lexical.lengths(), np.fromiter(map(len, documents), np.int64, len(documents))
    wrong = int((lengths[read] != counted).sum())
    if wrong:
        result.violate("lengths of documents", wrong)
    norms = K1 * (1 - B + B * counted / (int(lengths.sum()) / max(len(chunks), 1)))

    @cache
    def frequency(term: str) -> int:
        return len(lexical.documents_with(term))

    def idf(df: int) -> float:
        return math.log(1 + (len(chunks) - df + 0.5) / (df + 0.5))

    @cache
    def factors(term: str) -> NDArray[np.float64]:
        tf = np.array([counts[term] for counts in held], np.float64)
        return tf * (K1 + 1) / (tf + norms)

    def scores_by_definition(one: QueryTerm) -> NDArray[np.float64]:
        highest = idf(min(sum(map(frequency, one.terms)), len(chunks)))
        total = sum((highest * factors(term) for term in one.terms), np.zeros(len(read)))
        for term, weight in one.variants:
            if term not in one.terms:
                total = total + weight * min(highest, idf(frequency(term))) * factors(term)
        return total

    index = NarrativeIndex(corpus, analyzer=cast("AnalyzerName", snapshot.manifest.analyzer))
    for number, query in enumerate(asked, start=1):
        served = corpus.scores(query, analyzer)
        lexical.release()
        expected = sum(map(scores_by_definition, queries_read[query]), np.zeros(len(read)))
        lexical.release()
        result.checked += len(read)
        wrong = int((~np.isclose(served[read], expected, rtol=_TOLERANCE, atol=0)).sum())
        if wrong:
            result.violate(f"query {number}: {wrong} scores", wrong)
        if len(read) == len(chunks):
            _compare_with_definition(
                [[*tokens, *forms] for tokens, forms in zip(documents, beside, strict=True)],
                counted.tolist(),
                queries_read[query],
                lexical,
                number,
                result,
            )
        hits = index.retrieve(query, top_k=10)
        lexical.release()
        best = np.sort(served[served > 0])[::-1][:10]
        shown = np.array([hit.bm25_score for hit in hits])
        if len(shown) != len(best) or not np.allclose(shown, best, rtol=_TOLERANCE, atol=0):
            result.violate(f"query {number}: other hits")
        for before, after in pairwise(hits):
            if before.bm25_score == after.bm25_score and natural_key(before.chunk.chunk_id) > natural_key(
                after.chunk.chunk_id
            ):
                result.violate(f"query {number}: equal scores in another order")


_PROOFS: Mapping[str, Callable[[Snapshot, AuditResult, np.random.Generator, int], None]] = {"lexical": _compare_ranking}
"""What proves each index of a release, by its name."""


def audit_levels(store: ChunkStore, root: str | Path, *, seed: int = 17) -> AuditResult:
    """What each audience below the highest label is served is what a snapshot would hold that never held the rest.

    Of every index of a level, everything that it is made of is compared with what the index of all rows says of the rows
    that the level may have, and drawn scores with BM25 by its definition over these rows alone; its graph view is compared
    with the store (SPEC 8.3).
    """
    root = Path(root)
    if (nothing := _unpublished(root)) is not None:
        return nothing
    result = AuditResult()
    whole = _current(root, result)
    for label in whole.manifest.levels if whole is not None else ():
        assert whole is not None
        level = whole.up_to(label)
        limit = read_label(label)
        column = map_table(whole.path / CHUNKS).column("sensitivity").combine_chunks()
        ranks = np.array([read_label(one).rank for one in column.dictionary.to_pylist()] or [0])
        rows = np.flatnonzero(ranks[column.indices.to_numpy()] <= limit.rank)
        result.checked += len(rows)
        if len(level) != len(rows) or level.manifest.counts["chunks"] != len(rows):
            result.violate(f"{label}: {len(level)} passages, not {len(rows)}")
            continue
        for name in level.indexes:
            if name not in _LEVEL_PROOFS:
                result.violate(f"{label}: nothing proves the index {name}")
                continue
            try:
                _LEVEL_PROOFS[name](whole, level, rows, result)
                if len(level):
                    _PROOFS[name](level, result, np.random.default_rng(seed), _LEVEL_QUERIES)
            except (ValueError, IndexError):
                result.violate(f"{label}: the index {name} cannot be searched")
        if whole.path.name != chosen_by_hand(root):
            with store.connect() as connection:
                labels, gone = _labels_now(connection)
                _compare_graph(connection, level, labels, gone, result)
    levels = ", ".join(whole.manifest.levels) if whole is not None else ""
    return result.conclude(
        f"What is served up to {levels} is what a snapshot would hold that never held the rest: {result.checked} comparisons."
        if levels
        else "Nobody below the highest label is served, so there is nothing to prove.",
        "things differ from a snapshot that never held what is above: an audience could tell that something is there. Run "
        "refresh to publish again.",
    )


def _compare_level_postings(whole: Snapshot, level: Snapshot, rows: NDArray[np.integer], result: AuditResult) -> None:
    """Compare every term, entry and length of a level with those that all rows have within it."""
    label = level.manifest.max_label
    if not np.array_equal(whole.lexical.lengths()[rows], level.lexical.lengths()):
        result.violate(f"{label}: lengths of passages")
    place = np.full(len(whole), -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    everything = whole.lexical.staying(place)
    own = level.lexical.staying(np.arange(len(rows), dtype=np.int32))
    terms, found = everything.terms, iter(own.terms)
    starts = everything.block.starts
    first = behind = seen = 0
    while first < len(terms):
        # Some terms at a time: the entries of a large release would fill the memory.
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _ENTRIES, "right")) - 1)
        begin, end = int(starts[first]), int(starts[last])
        documents = place[np.asarray(everything.block.documents[begin:end])]
        kept = documents >= 0
        which = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        frequencies = np.bincount(which[kept], minlength=last - first)
        expected = [terms[first + one] for one in np.flatnonzero(frequencies).tolist()]
        stop, known = behind + int(kept.sum()), seen + len(expected)
        if (
            [next(found, None) for _ in expected] != expected
            or not np.array_equal(np.diff(own.block.starts[seen : known + 1]), frequencies[frequencies > 0])
            or not np.array_equal(documents[kept], own.block.documents[behind:stop])
            or not np.array_equal(np.asarray(everything.block.counts[begin:end])[kept], own.block.counts[behind:stop])
        ):
            result.violate(f"{label}: words that its passages do not hold so")
            return
        result.checked += len(expected)
        first, behind, seen = last, stop, known
    if next(found, None) is not None or behind != int(own.block.starts[-1]):
        result.violate(f"{label}: words that none of its passages holds")
    whole.lexical.release()
    level.lexical.release()


_ENTRIES = 1 << 20
_LEVEL_QUERIES = 4
_LEVEL_PROOFS: Mapping[str, Callable[[Snapshot, Snapshot, NDArray[np.integer], AuditResult], None]] = {
    "lexical": _compare_level_postings
}
"""What proves that an index of a level is made of its own rows alone, by the index's name."""


def _compare_with_definition(
    documents: Sequence[Sequence[str]],
    lengths: Sequence[int],
    query: Sequence[QueryTerm],
    lexical: LexicalIndex,
    number: int,
    result: AuditResult,
) -> None:
    """Compare each term with the definition itself, where every text was read: then nothing is taken from the index."""
    wrong = 0
    for term in {term for one in query for term in (*one.terms, *dict(one.variants))}:
        expected = bm25_scores([term], documents, lengths=lengths)
        wrong += int((~np.isclose(lexical.scores([term]), expected, rtol=_TOLERANCE, atol=0)).sum())
    if wrong:
        result.violate(f"query {number}: {wrong} scores by definition", wrong)
