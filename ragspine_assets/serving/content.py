"""What may be published of a store, read from it (SPEC 6.6).

Everything here is decided by the labels as they are now: that of a document is the strictest of its state and its active
chunks. Nothing above ``max_label`` has any part in a digest, a count or a row.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ragspine_assets.graph.model import PROFILE_SOURCE
from ragspine_assets.policy import Sensitivity
from ragspine_assets.retrieval.lexical import natural_key
from ragspine_assets.store.labels import rank_of

from .columns import INDEX_LANGUAGE, NUMBERS, PLAIN_TEXTS, REPEATED_TEXTS, SCHEMA
from .layout import FORMAT, GRAPH_TABLES, Manifest

if TYPE_CHECKING:
    from ragspine_assets.retrieval.analysis import AnalyzerName

_ROWS = 16_384

LABELS_NOW = f"""
    SELECT doc_id, max(rank) AS rank, bool_or(removed) AS removed FROM (
        SELECT doc_id, {rank_of("sensitivity")} AS rank, FALSE AS removed FROM narrative_chunk WHERE active
        UNION ALL SELECT doc_id, {rank_of("sensitivity")}, status = 'removed' FROM document
    ) GROUP BY doc_id
"""
"""Each document's rank in the lattice as it is now, and whether it is gone from the source."""

_LABEL = "CASE s.rank " + " ".join(f"WHEN {label.rank} THEN '{label}'" for label in Sensitivity) + " END"
_PUBLISHED = (*PLAIN_TEXTS, *REPEATED_TEXTS, *NUMBERS)
_SELECTED = ", ".join(f"{_LABEL} AS sensitivity" if name == "sensitivity" else f"c.{name}" for name in _PUBLISHED)
_CHUNKS = f"SELECT {_SELECTED} FROM narrative_chunk c JOIN _servable s USING (doc_id) WHERE c.active"

# A document that the store does not know, and the profile, count as INTERNAL: so does the graph that names them.
_OPEN = "({column} NOT IN (FROM _closed) AND ({column} IN (FROM _known) OR {internal}))"
_EDGE = "src_type, src, dst_type, dst, type"
_CITED = "regexp_replace({column}, '#[^#]*$', '')"


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
    internal = "TRUE" if max_label >= Sensitivity.INTERNAL else "FALSE"

    def is_open(column: str) -> str:
        return _OPEN.format(column=column, internal=internal)

    run(
        f"CREATE OR REPLACE TEMP TABLE _view_graph_evidence AS SELECT * FROM graph_evidence "
        f"WHERE {is_open('source_doc_id')} AND {is_open(_CITED.format(column='source_locator'))} "
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
    return _CITED.format(column=f"{alias}.source_locator")


def survey(
    connection: duckdb.DuckDBPyConnection, *, max_label: Sensitivity, analyzer: AnalyzerName, published_at: str
) -> Manifest:
    """Return the manifest, without files, of what would be published now; inside `servable`."""
    texts = ", ".join(f"c.{name}" if name != "sensitivity" else _LABEL for name in _PUBLISHED)
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
    release = _version("ragspine_assets")
    identity = {
        "format": FORMAT,
        "release": release,
        "max_label": str(max_label),
        "analyzer": analyzer,
        "analyzer_version": analyzer_version(analyzer),
        "chunkers": [name for (name,) in chunkers],
        "sources": {"chunks": chunks.hexdigest(), "graph": graph.hexdigest()},
    }
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
    )


_PLURAL = {"graph_node": "nodes", "graph_edge": "edges", "graph_evidence": "evidence"}


def analyzer_version(analyzer: AnalyzerName) -> str:
    """Return what the terms of a text depend on besides the text: terms of another version are not used again."""
    parts = [f"ragspine_assets {_version('ragspine_assets')}", f"unicode {unicodedata.unidata_version}"]
    libraries = ["regex"] + (["PyStemmer", "py3langid"] if analyzer == "stemmed" else [])
    return ", ".join(parts + [f"{name} {_version(name)}" for name in libraries])


def _version(distribution: str) -> str:
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


def chunk_table(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the chunks that may be published, in natural order of their ids; inside `servable`.

    The column `INDEX_LANGUAGE` is empty: who makes the index fills it.
    """
    columns: dict[str, list[pa.Array]] = {name: [] for name in _PUBLISHED}
    for batch in connection.sql(_CHUNKS).to_arrow_reader(_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            # Encoded piece by piece: windows are long and repeat for each child.
            if name in REPEATED_TEXTS:
                encoded = column.cast(pa.large_string()).dictionary_encode()
            else:
                encoded = column.cast(SCHEMA.field(name).type)
            columns[name].append(encoded)
    if not columns["text"]:
        return SCHEMA.empty_table()
    plain = {
        name: _unified(arrays) if name in REPEATED_TEXTS else pa.chunked_array(arrays).combine_chunks()
        for name, arrays in columns.items()
    }
    order = natural_order(plain["doc_id"], plain["seq"].to_numpy(), plain["chunk_id"])
    taken = {name: _taken(array, order) for name, array in plain.items()}
    taken[INDEX_LANGUAGE] = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(order), np.int32)), pa.array([""], pa.large_string())
    )
    return pa.table([taken[name] for name in SCHEMA.names], schema=SCHEMA)


def _unified(arrays: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    unified = pa.chunked_array(arrays).unify_dictionaries()
    indices = pa.chunked_array([chunk.indices for chunk in unified.chunks]).combine_chunks()
    return pa.DictionaryArray.from_arrays(indices, unified.chunk(0).dictionary)


def _taken(array: pa.Array, order: NDArray[np.intp]) -> pa.Array:
    if not isinstance(array, pa.DictionaryArray):
        return array.take(pa.array(order))
    # Values are numbered by where they come first, so that the file does not depend on the order of the store's rows.
    codes = array.indices.to_numpy()[order]
    used, first, which = np.unique(codes, return_index=True, return_inverse=True)
    by_place = np.argsort(first)
    renumbered = np.empty(len(used), np.int32)
    renumbered[by_place] = np.arange(len(used), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(renumbered[which]), array.dictionary.take(pa.array(used[by_place])))


def natural_order(doc_ids: pa.DictionaryArray, seqs: NDArray[np.int32], chunk_ids: pa.Array) -> NDArray[np.intp]:
    """Return the positions of chunks in natural order of ``chunk_id`` (SPEC 4.3).

    Chunks of one document come together and by ``seq``, so documents are sorted and not chunks. Where ids of documents
    could make chunks of two of them alternate, or a chunk is not called as it should be, the chunks are.
    """
    names = doc_ids.dictionary.to_pylist()
    # The last part of a key is the name itself, which only decides between ids that are spelled differently.
    keys = [natural_key(f"{name}#c")[:-1] for name in names]
    regular = len(set(keys)) == len(keys) and not any("#c" in name for name in names)
    if regular:
        parts = [doc_ids.cast(pa.large_string()), pa.array(seqs).cast(pa.large_string())]
        named = pc.call_function("binary_join_element_wise", [*parts, pa.scalar("#c", pa.large_string())])
        regular = named.equals(chunk_ids)
    if not regular:
        ids = chunk_ids.to_pylist()
        return np.array(sorted(range(len(ids)), key=lambda position: natural_key(ids[position])), np.intp)
    places = np.empty(len(names), np.int64)
    places[sorted(range(len(names)), key=keys.__getitem__)] = np.arange(len(names))
    return np.lexsort((seqs, places[doc_ids.indices.to_numpy()]))


def profile_names(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return what the graph says that the profile holds."""
    rows = connection.execute(
        "SELECT type, id, label, source_locator FROM graph_node WHERE source_doc_id = $source "
        "UNION SELECT '', '', '', source_locator FROM graph_evidence WHERE source_doc_id = $source",
        {"source": PROFILE_SOURCE},
    ).fetchall()
    return [name for row in rows for name in row if name]
