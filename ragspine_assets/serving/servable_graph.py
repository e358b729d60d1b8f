"""The graph as far as a highest label allows, what models assert included (SPEC 5.8, 6.6, 6.7)."""

from __future__ import annotations

import duckdb

from ragspine_assets.graph import DuckDBGraphStore
from ragspine_assets.graph.asserted_tables import EDGE_KEY, MODEL_TABLES
from ragspine_assets.graph.temp_tables import FIRST_PLACE, existing_tables
from ragspine_assets.policy import Sensitivity
from ragspine_assets.serving.servable_view import CITED, label_of, open_condition, servable
from ragspine_assets.serving.snapshot_files import GRAPH_TABLES
from ragspine_assets.store.database import memory_database

_KEY = ", ".join(EDGE_KEY)


def servable_graph(connection: duckdb.DuckDBPyConnection, max_label: Sensitivity) -> DuckDBGraphStore:
    """Return the part of a graph that may be shown, in a database of its own in memory.

    What rests on a document above ``max_label``, or on one that is gone, is not in it: no node, edge, evidence or count.
    What models assert is in it where ``connection`` has it, and is read where a reader asks for it.

    Args:
        connection: a store; or any tables of a graph, with the labels of its documents in `narrative_chunk` and `document`.
        max_label: the highest label of a document that anything may rest on.
    """
    view = memory_database()
    with servable(connection, max_label):
        parts = {name: f"FROM _view_{name}" for name in GRAPH_TABLES}
        if existing_tables(connection).issuperset({*MODEL_TABLES, "model_answer", "review_decision"}):
            evidence = _model_evidence(max_label)
            parts |= {
                "model_evidence": evidence,
                "model_edge": f"FROM model_edge SEMI JOIN ({evidence}) USING ({_KEY})",
                "model_node": _model_nodes(evidence),
                "model_answer": f"FROM model_answer SEMI JOIN ({evidence}) USING (answer_id) SELECT answer_id, asked_at",
                "extraction_record": "FROM extraction_record LIMIT 0",
                "review_decision": f"FROM review_decision SEMI JOIN (FROM _view_graph_edge SELECT {_KEY}) USING ({_KEY})",
            }
        for name, query in parts.items():
            view.register("_rows", connection.sql(query).to_arrow_table())
            view.execute(f"CREATE TABLE {name} AS FROM _rows")
            view.unregister("_rows")
    return DuckDBGraphStore(view)


def _model_evidence(max_label: Sensitivity) -> str:
    ends = " AND ".join(f"({end}_type != 'doc' OR {open_condition(end, max_label)})" for end in ("src", "dst"))
    return (
        f"SELECT * FROM model_evidence WHERE {open_condition('source_doc_id', max_label)} "
        f"AND {open_condition(CITED.format(column='source_locator'), max_label)} AND {ends}"
    )


def _model_nodes(evidence: str) -> str:
    """Return the query for ends of model edges that no shown node stands for, counted over shown documents alone."""
    return f"""
        SELECT type, id, id AS label, {label_of("min(rank)")} AS sensitivity,
            arg_min(source_doc_id, place) AS source_doc_id, arg_min(source_locator, place) AS source_locator,
            count(DISTINCT source_doc_id)::INTEGER AS documents
        FROM (
            SELECT *, {FIRST_PLACE} AS place FROM (
                SELECT src_type AS type, src AS id, source_doc_id, source_locator FROM ({evidence})
                UNION SELECT dst_type, dst, source_doc_id, source_locator FROM ({evidence})
            ) ANTI JOIN _view_graph_node USING (type, id)
        ) JOIN _label_now ON doc_id = source_doc_id
        GROUP BY type, id
    """
