"""The tables of what models assert, apart from the controlled graph, and the record of what extractors made (SPEC 5.3).

They are a function of what the seam accepted, of the documents that are open now, and of the decisions of reviewers: an
edge that was rejected is not in them, though the record still has it. The controlled tables are written without looking
at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import duckdb
import pyarrow as pa

from ragspine_assets.graph.adjacency import MODEL_REVISION, write_revision
from ragspine_assets.graph.answer_cache import forget_answers
from ragspine_assets.graph.differences import count_by_type, same, write_differences
from ragspine_assets.graph.screening import ExtractedEdge, Extraction
from ragspine_assets.graph.temp_tables import (
    FIRST_PLACE,
    existing_tables,
    label_names,
    registered,
    stage_document_states,
    table_of,
    temporary,
)
from ragspine_assets.graph.values import PROVENANCE_MODEL_DERIVED, PROVENANCE_UNVERIFIED
from ragspine_assets.policy import Sensitivity
from ragspine_assets.store.schema import TABLES

MODEL_TABLES = ("model_node", "model_edge", "model_evidence", "extraction_record")
"""The tables written here."""

EDGE_KEY = tuple(TABLES["graph_edge"])
_COLUMNS = {table: tuple(TABLES[table]) for table in MODEL_TABLES}
_EVIDENCE = _COLUMNS["model_evidence"]
TEMPORARY = (
    "gx_asserted",
    "gx_rejected",
    *(f"gx_{what}_{name}" for name in MODEL_TABLES for what in ("wanted", "added", "removed")),
)


@dataclass(frozen=True)
class ModelReport:
    """What models assert, as it stands.

    Attributes:
        nodes: names that only a model gives.
        edges: edges by type.
        evidence: pieces of evidence by edge type.
        edges_added, edges_removed: edges by type, in this build.
        written: whether anything was written.
        digest: sha256 of nodes, edges and evidence, independent of order and machine; empty where there is nothing.
    """

    nodes: int = 0
    edges: Mapping[str, int] = field(default_factory=dict)
    evidence: Mapping[str, int] = field(default_factory=dict)
    edges_added: Mapping[str, int] = field(default_factory=dict)
    edges_removed: Mapping[str, int] = field(default_factory=dict)
    written: bool = False
    digest: str = ""


_ASSERTED = pa.schema(
    [
        *((column, pa.string()) for column in EDGE_KEY),
        ("doc_id", pa.string()),
        ("source_locator", pa.string()),
        ("chunk_id", pa.string()),
        ("version", pa.int32()),
        ("text_hash", pa.string()),
        ("model", pa.string()),
        ("answer_id", pa.string()),
    ]
)


def edge_rows(edges: Sequence[ExtractedEdge]) -> pa.Table:
    """Return accepted edges as a table."""
    return table_of({name: [getattr(edge, name) for edge in edges] for name in _ASSERTED.names}, _ASSERTED)


def stage_asserted(con: duckdb.DuckDBPyConnection, extraction: Extraction) -> None:
    """Make `gx_asserted`: a model's edges whose chunk is active and open. `gx_chunk` must be staged."""
    with registered(con, gx_asserted_in=edge_rows(extraction.asserted)):
        con.execute(
            "CREATE TEMP TABLE gx_asserted AS SELECT DISTINCT a.* FROM gx_asserted_in a"
            " SEMI JOIN gx_chunk USING (doc_id, version, source_locator, chunk_id)"
        )


def write_model_tables(con: duckdb.DuckDBPyConnection, extraction: Extraction) -> ModelReport:
    """Bring the model's tables up to date with an extraction; only differences are written.

    Within the caller's transaction, after the controlled tables; `gx_chunk`, `gx_doc` and `gx_asserted` must be staged.

    Args:
        con: the connection.
        extraction: what the seam accepted.
    """
    listed = ", ".join(EDGE_KEY)
    rejected = "review_decision" in existing_tables(con)
    con.execute(
        f"CREATE TEMP TABLE gx_rejected AS SELECT {listed} FROM review_decision WHERE verdict = 'reject'"
        if rejected
        else f"CREATE TEMP TABLE gx_rejected AS SELECT {listed} FROM gx_asserted WHERE FALSE"
    )
    con.execute(
        f"""
        CREATE TEMP TABLE gx_wanted_model_evidence AS
        SELECT {listed}, doc_id AS source_doc_id, source_locator, chunk_id, version, text_hash,
            $extractor AS extractor, model, answer_id
        FROM gx_asserted ANTI JOIN gx_rejected USING ({listed})
        """,
        {"extractor": extraction.extractor},
    )
    con.execute(
        f"CREATE TEMP TABLE gx_wanted_model_edge AS SELECT DISTINCT {listed}, '{PROVENANCE_MODEL_DERIVED}' AS derived,"
        f" '{PROVENANCE_UNVERIFIED}' AS verified FROM gx_wanted_model_evidence"
    )
    con.execute(f"CREATE TEMP TABLE gx_wanted_model_node AS {_nodes('gx_wanted_model_evidence')}")
    with registered(con, gx_extracted_in=edge_rows(extraction.edges)):
        columns = f"{listed}, doc_id AS source_doc_id, source_locator, chunk_id, version"
        con.execute(
            f"CREATE TEMP TABLE gx_wanted_extraction_record AS"
            f" SELECT DISTINCT $extractor AS extractor, FALSE AS deterministic, {columns} FROM gx_asserted UNION ALL"
            f" SELECT DISTINCT $extractor, TRUE, {columns} FROM gx_extracted_in"
            " SEMI JOIN gx_chunk USING (doc_id, version, source_locator)",
            {"extractor": extraction.extractor},
        )
    changes = {name: write_differences(con, name, columns) for name, columns in _COLUMNS.items()}
    digest = model_digest(con)
    if any(change.written for change in changes.values()):
        write_revision(con, digest or "empty", MODEL_REVISION)
    return ModelReport(
        nodes=sum(count_by_type(con, "model_node").values()),
        edges=count_by_type(con, "model_edge"),
        evidence=count_by_type(con, "model_evidence"),
        edges_added=changes["model_edge"].added,
        edges_removed=changes["model_edge"].removed,
        written=any(change.written for change in changes.values()),
        digest=digest,
    )


def model_digest(con: duckdb.DuckDBPyConnection) -> str:
    """Return a sha256 of what models assert; empty where there is nothing."""
    parts = []
    for table in ("model_node", "model_edge", "model_evidence"):
        hashed = f"SELECT sha256(concat_ws(chr(31), {', '.join(_COLUMNS[table])})) AS h FROM {table}"
        halves = ", ".join(f"coalesce(sum(('0x' || substr(h, {start}, 16))::UBIGINT), 0)" for start in (1, 17))
        row = con.execute(f"SELECT count(*), {halves} FROM ({hashed})").fetchall()[0]
        parts.append(tuple(int(number) for number in row))
    return sha256(repr(parts).encode()).hexdigest() if any(part[0] for part in parts) else ""


def withdraw_from_model_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Remove every trace of the documents in `gx_gone` from model tables, decisions and kept answers.

    Within the caller's transaction, before the controlled edges without evidence go.
    """
    tables = existing_tables(con)
    if not tables.issuperset({*MODEL_TABLES, "review_decision", "review_evidence", "model_answer"}):
        return
    con.execute("DELETE FROM model_evidence WHERE source_doc_id IN (SELECT doc_id FROM gx_gone)")
    con.execute("DELETE FROM extraction_record WHERE source_doc_id IN (SELECT doc_id FROM gx_gone)")
    con.execute("DELETE FROM review_evidence WHERE doc_id IN (SELECT doc_id FROM gx_gone)")
    for owner, evidence in (("model_edge", "model_evidence"), ("review_decision", "review_evidence")):
        con.execute(f"DELETE FROM {owner} WHERE NOT EXISTS (FROM {evidence} e WHERE {same('e', owner, EDGE_KEY)})")
    con.execute(
        "DELETE FROM graph_evidence WHERE kind = 'review' AND NOT EXISTS (FROM review_decision d"
        f" WHERE {same('d', 'graph_evidence', EDGE_KEY)})"
    )
    write_revision(con, None, MODEL_REVISION)
    with temporary(con, "gx_state", "gx_named", "gx_doc"), registered(con, gx_lattice=label_names()):
        con.execute(
            "CREATE TEMP TABLE gx_doc AS SELECT id AS doc_id, rank FROM graph_node"
            " JOIN gx_lattice ON gx_lattice.label = sensitivity WHERE type = 'doc'"
        )
        con.execute(f"CREATE TEMP TABLE gx_named AS {_nodes('model_evidence')}")
        con.execute("DELETE FROM model_node")
        con.execute("INSERT INTO model_node BY NAME SELECT * FROM gx_named ORDER BY ALL")
        stage_document_states(con)
        con.execute("UPDATE gx_state SET restricted = TRUE WHERE doc_id IN (SELECT doc_id FROM gx_gone)")
        forget_answers(con)


def _nodes(evidence: str) -> str:
    """Return the query for the ends that no controlled node stands for.

    A name given in two documents is one node, since nothing but its name is known; `documents` says in how many, so
    that nobody takes two people of one name for one. The label is that of the most open of them.
    """
    return f"""
        SELECT type, id, id AS label, gx_lattice.label AS sensitivity, source_doc_id, source_locator,
            documents::INTEGER AS documents
        FROM (
            SELECT type, id, coalesce(min(rank), {Sensitivity.RESTRICTED.rank}) AS rank,
                arg_min(source_doc_id, place) AS source_doc_id, arg_min(source_locator, place) AS source_locator,
                count(DISTINCT source_doc_id) AS documents
            FROM (
                SELECT *, {FIRST_PLACE} AS place
                FROM (
                    SELECT src_type AS type, src AS id, source_doc_id, source_locator FROM {evidence}
                    UNION SELECT dst_type, dst, source_doc_id, source_locator FROM {evidence}
                ) ANTI JOIN graph_node USING (type, id)
            ) LEFT JOIN gx_doc ON doc_id = source_doc_id
            GROUP BY type, id
        ) JOIN gx_lattice USING (rank)
    """
