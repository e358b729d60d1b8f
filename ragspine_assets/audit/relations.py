"""Proofs over the graph tables (SPEC 5.3, 5.4, 6.3), by other code than the code that builds the graph."""

from __future__ import annotations

import re

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.policy import is_restricted
from ragspine_assets.serving.leaks import KNOWN, spells_closed
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import references

_TRACES = """
    SELECT 'graph_node' AS place, source_doc_id AS doc_id FROM graph_node
    UNION ALL SELECT 'graph_node', id FROM graph_node WHERE type = 'doc'
    UNION ALL SELECT 'graph_edge', src FROM graph_edge WHERE src_type = 'doc'
    UNION ALL SELECT 'graph_edge', dst FROM graph_edge WHERE dst_type = 'doc'
    UNION ALL SELECT 'graph_evidence', source_doc_id FROM graph_evidence
    UNION ALL SELECT 'graph_evidence', src FROM graph_evidence WHERE src_type = 'doc'
    UNION ALL SELECT 'graph_scan', doc_id FROM graph_scan
    UNION ALL SELECT 'graph_mention', doc_id FROM graph_mention
    UNION ALL SELECT 'fact', source_doc_id FROM fact
    UNION ALL SELECT 'model_node', source_doc_id FROM model_node
    UNION ALL SELECT 'model_node', id FROM model_node WHERE type = 'doc'
    UNION ALL SELECT 'model_evidence', source_doc_id FROM model_evidence
    UNION ALL SELECT 'extraction_record', source_doc_id FROM extraction_record
    UNION ALL SELECT 'review_evidence', doc_id FROM review_evidence
"""
_LOCATED = """
    SELECT 'graph_node' AS place, source_locator FROM graph_node
    UNION ALL SELECT 'graph_evidence', source_locator FROM graph_evidence
    UNION ALL SELECT 'graph_evidence', chunk_id FROM graph_evidence
    UNION ALL SELECT 'graph_mention', source_locator FROM graph_mention
    UNION ALL SELECT 'fact', source_locator FROM fact
    UNION ALL SELECT 'model_node', source_locator FROM model_node
    UNION ALL SELECT 'model_evidence', source_locator FROM model_evidence
    UNION ALL SELECT 'model_evidence', chunk_id FROM model_evidence
    UNION ALL SELECT 'extraction_record', source_locator FROM extraction_record
"""
# Where people write citations: in facts, and what is made of them.
_CITING = {"fact", "graph_evidence"}
# What a model answered about a text that only RESTRICTED documents hold, or nobody any more.
_CLOSED_ANSWERS = """
    SELECT count(*) FROM model_answer WHERE text_hash NOT IN (
        SELECT sha256(c.text) FROM narrative_chunk c LEFT JOIN document d USING (doc_id)
        WHERE c.sensitivity IN ('PUBLIC', 'INTERNAL', 'CONFIDENTIAL')
            AND coalesce(d.sensitivity, 'PUBLIC') IN ('PUBLIC', 'INTERNAL', 'CONFIDENTIAL')
    )
"""


def audit_graph_isolation(store: ChunkStore) -> AuditResult:
    """No row of any graph table comes from, or names, a RESTRICTED document (SPEC 5.4)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        secret = {
            doc_id
            for doc_id, label in connection.execute(
                "SELECT doc_id, sensitivity FROM document "
                "UNION SELECT doc_id, sensitivity FROM narrative_chunk WHERE active"
            ).fetchall()
            if is_restricted(label)
        }
        result.counts["RESTRICTED documents in the store"] = len(secret)
        known = {doc_id for (doc_id,) in connection.execute(KNOWN).fetchall()}
        spells = spells_closed(known, secret, references(connection))
        for place, doc_id, n in connection.execute(
            f"SELECT place, doc_id, count(*) FROM ({_TRACES}) GROUP BY ALL ORDER BY ALL"
        ).fetchall():
            result.checked += n
            if doc_id in secret:
                result.violate(f"{name(doc_id)} in {place}", n)
            elif place in _CITING and spells(doc_id):
                result.violate(f"another spelling of a RESTRICTED document in {place}", n)
        for place, locator, n in connection.execute(
            f"SELECT place, source_locator, count(*) FROM ({_LOCATED}) GROUP BY ALL ORDER BY ALL"
        ).fetchall():
            result.checked += n
            document = re.sub(r"#[^#]*$", "", locator)
            if document in secret:
                result.violate(f"{name(document)} in {place}", n)
            elif place in _CITING and spells(locator):
                result.violate(f"another spelling of a RESTRICTED document in {place}", n)
        ((answers,),) = connection.execute("SELECT count(*) FROM model_answer").fetchall()
        result.checked += answers
        # Every text is hashed for it: not where nobody asked a model.
        closed = connection.execute(_CLOSED_ANSWERS).fetchall()[0][0] if answers else 0
        if closed:
            result.violate("an answer of a model about a text that no open document holds", closed)
        open_entities = {
            row[0]
            for row in connection.execute(
                "SELECT DISTINCT entity FROM narrative_chunk WHERE active AND sensitivity IN "
                "('PUBLIC', 'INTERNAL', 'CONFIDENTIAL') UNION SELECT entity FROM fact "
                "UNION SELECT id FROM graph_node WHERE source_doc_id = 'company_profile'"
            ).fetchall()
        }
        for (entity,) in connection.execute(
            "SELECT DISTINCT entity FROM narrative_chunk WHERE entity != '' ORDER BY 1"
        ).fetchall():
            if entity in open_entities:
                continue
            row = connection.execute(
                "SELECT count(*) FROM graph_node WHERE id = ? AND type = 'entity'", [entity]
            ).fetchone()
            if row and row[0]:
                result.violate("an entity that only RESTRICTED or withdrawn documents name", row[0])
    return result.conclude(
        f"None of {result.checked} entries of the graph comes from a RESTRICTED document.",
        "entries of the graph come from RESTRICTED documents. Run refresh before anybody reads the graph.",
    )


_BROKEN = """
    SELECT 'edge without evidence' AS why,
        CASE WHEN 'model_entity' IN (src_type, dst_type) THEN 'accepted in review'
            ELSE src_type || ' ' || src || ' ' || type || ' ' || dst END AS what, '' AS doc_id
    FROM graph_edge e ANTI JOIN graph_evidence v USING (src_type, src, dst_type, dst, type)
    UNION ALL
    SELECT 'evidence without edge', type, source_doc_id
    FROM graph_evidence v ANTI JOIN graph_edge e USING (src_type, src, dst_type, dst, type)
    UNION ALL
    SELECT 'edge from a missing node', 'an edge', '' FROM graph_edge e
    WHERE NOT EXISTS (FROM graph_node n WHERE n.type = e.src_type AND n.id = e.src)
    UNION ALL
    SELECT 'edge to a missing node', 'an edge', '' FROM graph_edge e
    WHERE NOT EXISTS (FROM graph_node n WHERE n.type = e.dst_type AND n.id = e.dst)
    UNION ALL
    SELECT 'node or evidence without source', type, '' FROM graph_node WHERE source_doc_id = '' OR source_locator = ''
    UNION ALL
    SELECT 'node or evidence without source', type, '' FROM graph_evidence WHERE source_doc_id = '' OR source_locator = ''
    UNION ALL
    SELECT 'chunk that does not exist', v.type, v.source_doc_id FROM graph_evidence v
    WHERE v.chunk_id != '' AND NOT EXISTS (
        FROM narrative_chunk c WHERE c.chunk_id = v.chunk_id AND c.version = v.version AND c.doc_id = v.source_doc_id
            AND c.active)
    UNION ALL
    SELECT 'fact that does not exist', v.type, v.source_doc_id FROM graph_evidence v
    WHERE v.kind IN ('fact', 'external') AND NOT EXISTS (
        FROM fact f WHERE f.source_doc_id = v.source_doc_id AND f.source_locator = v.source_locator)
    UNION ALL
    SELECT 'decision that does not exist', 'accepted in review', '' FROM graph_evidence v
    WHERE v.kind IN ('review', 'reviewed') AND NOT EXISTS (
        FROM review_decision d WHERE d.verdict = 'accept'
            AND (d.src_type, d.src, d.dst_type, d.dst, d.type) = (v.src_type, v.src, v.dst_type, v.dst, v.type))
    UNION ALL
    SELECT 'decision without a text it rests on', 'accepted in review', '' FROM graph_evidence v
    WHERE v.kind = 'review' AND NOT EXISTS (
        FROM graph_evidence r WHERE r.kind = 'reviewed'
            AND (r.src_type, r.src, r.dst_type, r.dst, r.type) = (v.src_type, v.src, v.dst_type, v.dst, v.type))
    UNION ALL
    SELECT 'model edge without evidence', 'a model edge', '' FROM model_edge e
    ANTI JOIN model_evidence v USING (src_type, src, dst_type, dst, type)
    UNION ALL
    SELECT 'model evidence without edge', type, source_doc_id
    FROM model_evidence v ANTI JOIN model_edge e USING (src_type, src, dst_type, dst, type)
    UNION ALL
    SELECT 'model edge to a missing node', 'a model edge', '' FROM (
        SELECT type, unnest([{'t': src_type, 'i': src}, {'t': dst_type, 'i': dst}]) AS tip FROM model_edge
    ) WHERE NOT EXISTS (FROM graph_node n WHERE n.type = tip.t AND n.id = tip.i)
        AND NOT EXISTS (FROM model_node n WHERE n.type = tip.t AND n.id = tip.i)
    UNION ALL
    SELECT 'chunk that does not exist', v.type, v.source_doc_id FROM model_evidence v
    WHERE NOT EXISTS (
        FROM narrative_chunk c WHERE c.chunk_id = v.chunk_id AND c.version = v.version AND c.doc_id = v.source_doc_id
            AND c.active)
    UNION ALL
    SELECT 'node that is there twice', type, '' FROM graph_node GROUP BY type, id HAVING count(*) > 1
    UNION ALL
    SELECT 'edge that is there twice', 'an edge', '' FROM graph_edge GROUP BY src_type, src, dst_type, dst, type
    HAVING count(*) > 1
"""


def audit_evidence(store: ChunkStore) -> AuditResult:
    """Every edge has evidence that resolves, and nothing dangles (SPEC 5.2, 5.3)."""
    result = AuditResult()
    with store.connect() as connection:
        name = references(connection)
        row = connection.execute(
            "SELECT (SELECT count(*) FROM graph_edge) + (SELECT count(*) FROM graph_evidence)"
            " + (SELECT count(*) FROM model_edge) + (SELECT count(*) FROM model_evidence)"
        ).fetchone()
        result.checked = row[0] if row else 0
        for why, what, doc_id, n in connection.execute(
            f"SELECT why, what, doc_id, count(*) FROM ({_BROKEN}) GROUP BY ALL ORDER BY ALL LIMIT 1000"
        ).fetchall():
            example = f"{why} ({name(doc_id)})" if doc_id else f"{why} ({what})"
            result.violate(example, n)
    return result.conclude(
        f"All {result.checked} edges and pieces of evidence resolve.",
        "edges or pieces of evidence do not resolve. Run refresh to build the graph again.",
    )
