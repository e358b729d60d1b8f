"""What may be published of a store, read from it (SPEC 6.6).

Everything here is decided by the labels as they are now: that of a document is the strictest of its state and its active
chunks. Nothing above ``max_label`` has any part in a digest, a count or a row.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ragspine_assets.graph.values import PROFILE_SOURCE
from ragspine_assets.natural_order import natural_key
from ragspine_assets.policy import Sensitivity
from ragspine_assets.serving.chunk_table import ADDITIVE, NUMBERS, PLAIN_TEXTS, REPEATED_TEXTS
from ragspine_assets.serving.snapshot_files import FORMAT, GRAPH_TABLES, Level, Manifest
from ragspine_assets.store.database import registered
from ragspine_assets.store.labels import rank_of
from ragspine_assets.store.text_batches import WITHIN

if TYPE_CHECKING:
    from ragspine_assets.index.analysis import AnalyzerName

_ROWS = 2_048
_GROUP = 8_192
_LAST = 2**31 - 1
NO_LEVELS: Mapping[str, Level] = MappingProxyType({})
_WINDOW_BYTES = 2_048
"""Longer windows on average make a group smaller in proportion."""

LABELS_NOW = f"""
    SELECT doc_id, max(rank) AS rank, bool_or(removed) AS removed FROM (
        SELECT doc_id, {rank_of("sensitivity")} AS rank, FALSE AS removed FROM narrative_chunk WHERE active
        UNION ALL SELECT doc_id, {rank_of("sensitivity")}, status = 'removed' FROM document
    ) GROUP BY doc_id
"""
"""Each document's rank in the lattice as it is now, and whether it is gone from the source."""

_WHEN = " ".join(f"WHEN {label.rank} THEN '{label}'" for label in Sensitivity)


def label_of(rank: str) -> str:
    """Return SQL for the label of a rank."""
    return f"CASE {rank} {_WHEN} END"


_LABEL = label_of("s.rank")
_PUBLISHED = (*PLAIN_TEXTS, *REPEATED_TEXTS, *NUMBERS)
_SELECTED = ", ".join(f"{_LABEL} AS sensitivity" if name == "sensitivity" else f"c.{name}" for name in _PUBLISHED)

# A document that the store does not know, and the profile, count as INTERNAL: so does the graph that names them.
_OPEN = "({column} NOT IN (FROM _closed) AND ({column} IN (FROM _known) OR {internal}))"
_EDGE = "src_type, src, dst_type, dst, type"
CITED = "regexp_replace({column}, '#[^#]*$', '')"
"""SQL for the document that a locator names."""


def open_condition(column: str, max_label: Sensitivity) -> str:
    """Return the SQL condition that what a column names may be shown; inside `servable`."""
    return _OPEN.format(column=column, internal="TRUE" if max_label >= Sensitivity.INTERNAL else "FALSE")


@contextmanager
def servable(connection: duckdb.DuckDBPyConnection, max_label: Sensitivity) -> Iterator[None]:
    """Make temporary tables of what may be published, for the time of a block.

    ``_servable`` has each document and its rank; ``_view_graph_node`` and the like have the graph's rows.
    """
    run = connection.execute
    run(f"CREATE OR REPLACE TEMP TABLE _label_now AS {LABELS_NOW}")
    run("CREATE OR REPLACE TEMP TABLE _known AS SELECT doc_id FROM _label_now")
    run(
        "CREATE OR REPLACE TEMP TABLE _closed AS SELECT doc_id FROM _label_now WHERE removed OR rank > ? OR rank >= ?",
        [max_label.rank, Sensitivity.RESTRICTED.rank],
    )
    run(
        "CREATE OR REPLACE TEMP TABLE _servable AS SELECT doc_id, rank FROM _label_now "
        "WHERE doc_id NOT IN (FROM _closed) AND doc_id IN (SELECT doc_id FROM narrative_chunk WHERE active)"
    )

    def is_open(column: str) -> str:
        return open_condition(column, max_label)

    run(
        f"CREATE OR REPLACE TEMP TABLE _view_graph_evidence AS SELECT * FROM graph_evidence "
        f"WHERE {is_open('source_doc_id')} AND {is_open(CITED.format(column='source_locator'))} "
        f"AND (src_type != 'doc' OR {is_open('src')}) AND (dst_type != 'doc' OR {is_open('dst')})"
    )
    run(
        "CREATE OR REPLACE TEMP TABLE _view_graph_edge AS SELECT * FROM graph_edge "
        f"SEMI JOIN _view_graph_evidence USING ({_EDGE})"
    )
    # A node that only closed documents were the source of is held by what is open and names it.
    run(
        "CREATE OR REPLACE TEMP TABLE _view_graph_node AS "
        f"SELECT n.* FROM graph_node n WHERE {is_open('n.source_doc_id')} AND {is_open(_cited('n'))} "
        f"AND (n.type != 'doc' OR {is_open('n.id')}) "
        "UNION ALL "
        "SELECT n.type, n.id, '' AS label, n.sensitivity, e.source_doc_id, e.source_locator FROM graph_node n JOIN ("
        "  SELECT type, id, min((source_doc_id, source_locator)) AS place FROM ("
        "    SELECT src_type AS type, src AS id, source_doc_id, source_locator FROM _view_graph_evidence"
        "    UNION ALL SELECT dst_type, dst, source_doc_id, source_locator FROM _view_graph_evidence) GROUP BY ALL"
        ") p USING (type, id), LATERAL (SELECT p.place[1] AS source_doc_id, p.place[2] AS source_locator) e "
        f"WHERE n.type != 'doc' AND NOT ({is_open('n.source_doc_id')} AND {is_open(_cited('n'))})"
    )
    try:
        yield
    finally:
        for table in ("_label_now", "_known", "_closed", "_servable", *(f"_view_{name}" for name in GRAPH_TABLES)):
            run(f"DROP TABLE IF EXISTS {table}")


def _cited(alias: str) -> str:
    return CITED.format(column=f"{alias}.source_locator")


def survey(
    connection: duckdb.DuckDBPyConnection,
    *,
    max_label: Sensitivity,
    analyzer: AnalyzerName,
    published_at: str,
    levels: Mapping[str, Level] = NO_LEVELS,
) -> Manifest:
    """Return the manifest, without files, of what would be published now with some levels; inside `servable`."""
    # What is null counts for nothing: a column that was added later changes a digest only where there is something in it.
    texts = ", ".join(
        f"'{name}=' || nullif(c.{name}, '')" if name in ADDITIVE else f"c.{name}" if name != "sensitivity" else _LABEL
        for name in _PUBLISHED
    )
    documents = connection.execute(
        "SELECT doc_id, version, sha256(string_agg(row, '' ORDER BY seq, row)) FROM ("
        f"  SELECT c.doc_id, c.version, c.seq, sha256(concat_ws(chr(31), {texts})) AS row"
        "  FROM narrative_chunk c JOIN _servable s USING (doc_id) WHERE c.active) GROUP BY ALL ORDER BY ALL"
    )
    chunks = hashlib.sha256()
    while rows := documents.fetchmany(_ROWS):
        chunks.update(repr(rows).encode())
    graph = hashlib.sha256()
    counts = {}
    for name in GRAPH_TABLES:
        columns = _columns(connection, f"_view_{name}")
        ((number, digest),) = connection.execute(
            f"SELECT count(*), coalesce(sha256(string_agg(row, '' ORDER BY row)), '') FROM ("
            f"SELECT sha256(concat_ws(chr(31), {', '.join(columns)})) AS row FROM _view_{name})"
        ).fetchall()
        graph.update(digest.encode())
        counts[_PLURAL[name]] = number
    counts["documents"] = connection.execute("SELECT count(*) FROM _servable").fetchall()[0][0]
    counts["chunks"] = 0
    for label, number in connection.execute(
        f"SELECT {_LABEL}, count(*) FROM narrative_chunk c JOIN _servable s USING (doc_id) WHERE c.active GROUP BY 1 ORDER BY 1"
    ).fetchall():
        counts[f"chunks {label}"] = number
        counts["chunks"] += number
    chunkers = connection.execute(
        "SELECT DISTINCT chunker FROM staged_document JOIN _servable USING (doc_id) WHERE chunker != '' ORDER BY 1"
    ).fetchall()
    release = version_of("ragspine_assets")
    identity = {
        "format": FORMAT,
        "release": release,
        "max_label": str(max_label),
        "analyzer": analyzer,
        "analyzer_version": analyzer_version(analyzer),
        "chunkers": [name for (name,) in chunkers],
        "sources": {"chunks": chunks.hexdigest(), "graph": graph.hexdigest()},
        # Files with other columns are published anew.
        "added_columns": ADDITIVE,
    }
    if levels:
        identity["levels"] = {label: level.digest for label, level in levels.items()}
    return Manifest(
        digest=hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
        release=release,
        published_at=published_at,
        max_label=str(max_label),
        labels=tuple(str(label) for label in Sensitivity if label <= max_label),
        analyzer=analyzer,
        analyzer_version=identity["analyzer_version"],
        chunkers=tuple(identity["chunkers"]),
        sources=identity["sources"],
        counts=counts,
        levels=dict(levels),
    )


def survey_levels(
    connection: duckdb.DuckDBPyConnection,
    labels: Sequence[Sensitivity],
    *,
    analyzer: AnalyzerName,
    published_at: str,
    former: Mapping[str, Level] = NO_LEVELS,
) -> dict[str, Level]:
    """Return what audiences up to some labels would be served now.

    A level whose content is that of the former release keeps its time: that something above it changed tells it nothing.
    """
    levels = {}
    for label in labels:
        with servable(connection, label):
            found = survey(connection, max_label=label, analyzer=analyzer, published_at=published_at)
        before = former.get(label)
        since = before.published_at if before is not None and before.digest == found.digest else published_at
        levels[str(label)] = Level(found.digest, since, found.chunkers, found.sources, found.counts)
    return levels


_PLURAL = {"graph_node": "nodes", "graph_edge": "edges", "graph_evidence": "evidence"}


def analyzer_version(analyzer: AnalyzerName) -> str:
    """Return what the terms of a text depend on besides the text: terms of another version are not used again."""
    parts = [f"ragspine_assets {version_of('ragspine_assets')}", f"unicode {unicodedata.unidata_version}"]
    libraries = ["regex"] + (["PyStemmer"] if analyzer != "plain" else [])
    return ", ".join(parts + [f"{name} {version_of(name)}" for name in libraries])


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution, ``unknown`` for one that is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        # Run from a source tree that is not installed.
        return "unknown"


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]


def graph_table(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    """Return the rows of one graph table that may be published, in a fixed order; inside `servable`."""
    return connection.sql(f"SELECT * FROM _view_{name} ORDER BY ALL").to_arrow_table()


def chunk_rows(connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    """Yield the chunks that may be published, in natural order of their ids; inside `servable`.

    Columns are those of a published table but for `INDEX_LANGUAGE`, texts as strings. Rows are read in groups, so that
    nothing has to be sorted but their names.
    """
    for group, keys in _groups(connection):
        names = group.column("doc_id").to_pylist()
        seqs = group.column("seq").to_pylist() if "seq" in group.column_names else [0, _LAST]
        with registered(connection, _group=group):
            yield from connection.sql(
                f"SELECT {_SELECTED} FROM narrative_chunk c JOIN _servable s USING (doc_id) JOIN _group g USING ({keys}) "
                f"WHERE c.active AND c.doc_id {WITHIN} AND c.seq BETWEEN $low AND $high ORDER BY g.place, c.seq",
                params={"first": min(names), "last": max(names), "low": min(seqs), "high": max(seqs)},
            ).to_arrow_reader(_ROWS)


def _groups(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[pa.Table, str]]:
    """Yield some thousand chunks at a time in their order, fewer with long windows, and what a row is recognised by."""
    documents = connection.execute(
        "SELECT doc_id, greatest(count(*), sum(strlen(window_text)) // ?)::BIGINT, "
        "count(*) FILTER (chunk_id != doc_id || '#c' || seq) "
        "FROM narrative_chunk c JOIN _servable s USING (doc_id) WHERE c.active GROUP BY doc_id ORDER BY doc_id",
        [_WINDOW_BYTES],
    ).fetchall()
    sizes = {doc_id: size for doc_id, size, _ in documents}
    order = None if any(irregular for _, _, irregular in documents) else natural_order(sizes)
    if order is not None:
        behind = list(accumulate(sizes[doc_id] for doc_id in order))
        first = 0
        while first < len(order):
            if sizes[order[first]] > _GROUP:
                rows = connection.execute(
                    "SELECT doc_id, seq FROM narrative_chunk WHERE active AND doc_id = ? ORDER BY seq", [order[first]]
                ).fetchall()
                yield from _parts(rows, sizes[order[first]])
                first += 1
                continue
            last = bisect_right(behind, behind[first] + _GROUP, first)
            yield pa.table({"doc_id": order[first:last], "place": range(last - first)}), "doc_id"
            first = last
        return
    # Chunks of two documents alternate, or are not called as they should be: each has a place of its own.
    chunks = connection.execute(
        "SELECT doc_id, seq, chunk_id FROM narrative_chunk c JOIN _servable s USING (doc_id) WHERE c.active"
    ).fetchall()
    chunks.sort(key=lambda row: natural_key(row[2]))
    yield from _parts([row[:2] for row in chunks], sum(sizes.values()))


def _parts(rows: list[tuple[str, int]], size: int) -> Iterator[tuple[pa.Table, str]]:
    """Yield rows some at a time, each with its place; ``size`` is what they count for together."""
    step = max(len(rows) * _GROUP // max(size, 1), 1)
    for first in range(0, len(rows), step):
        names, seqs = zip(*rows[first : first + step], strict=True)
        yield pa.table({"doc_id": names, "seq": pa.array(seqs, pa.int32()), "place": range(len(names))}), "doc_id, seq"


def natural_order(doc_ids: Iterable[str]) -> list[str] | None:
    """Return documents in the order that puts their chunks in natural order of ``chunk_id`` (SPEC 4.3).

    Chunks of one document come together and by ``seq``. Where ids of documents could make chunks of two of them
    alternate, there is no such order: None.
    """
    # The last part of a key is the name itself, which only decides between ids that are spelled differently.
    keys = {doc_id: natural_key(f"{doc_id}#c")[0] for doc_id in doc_ids}
    if len(set(keys.values())) < len(keys) or any("#c" in doc_id for doc_id in keys):
        return None
    return sorted(keys, key=keys.__getitem__)


def profile_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return what the graph says that the profile holds."""
    rows = connection.execute(
        "SELECT type, id, label, source_locator FROM graph_node WHERE source_doc_id = $source "
        "UNION SELECT '', '', '', source_locator FROM graph_evidence WHERE source_doc_id = $source",
        {"source": PROFILE_SOURCE},
    ).fetchall()
    return [name for row in rows for name in row if name]
