"""Proofs over what models assert (SPEC 5.3, 5.6, 6.3), by other code than the code that writes it.

What an edge should carry is derived from the extractors' own records: what the seam noted of each extractor, and what
each kept answer of a model proposed. No marker is compared with itself.
"""

from __future__ import annotations

import json
import re
import unicodedata

import duckdb

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.policy import DomainProfile, SecurityGate, fold_text
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import references

_KEY = "src_type, src, dst_type, dst, type"

_BROKEN = f"""
    WITH by_model AS (SELECT DISTINCT {_KEY} FROM extraction_record WHERE NOT deterministic),
    by_rule AS (
        SELECT DISTINCT {_KEY}, source_doc_id, source_locator FROM extraction_record WHERE deterministic
    ),
    accepted AS (SELECT {_KEY} FROM review_decision WHERE verdict = 'accept'),
    rejected AS (SELECT {_KEY} FROM review_decision WHERE verdict = 'reject')
    SELECT 'model edge without both markers' AS why, '' AS doc_id, count(*) AS n FROM by_model m JOIN model_edge e
        USING ({_KEY}) WHERE e.derived IS DISTINCT FROM 'model-derived' OR e.verified IS DISTINCT FROM 'unverified'
    UNION ALL
    SELECT 'model edge that no extractor recorded', '', count(*) FROM model_edge ANTI JOIN by_model USING ({_KEY})
    UNION ALL
    SELECT 'recorded assertion without its model edge', '', count(*)
    FROM by_model ANTI JOIN rejected USING ({_KEY}) ANTI JOIN model_edge USING ({_KEY})
    UNION ALL
    SELECT 'rejected edge that is still shown', '', count(*) FROM model_edge SEMI JOIN rejected USING ({_KEY})
    UNION ALL
    SELECT 'model evidence that no extractor recorded', v.source_doc_id, count(*)
    FROM model_evidence v ANTI JOIN (FROM extraction_record WHERE NOT deterministic) r
        USING ({_KEY}, source_doc_id, source_locator, chunk_id, version, extractor)
    GROUP BY v.source_doc_id
    UNION ALL
    SELECT 'edge there twice', '', count(*) FROM (FROM model_edge SELECT {_KEY} GROUP BY ALL HAVING count(*) > 1)
    UNION ALL
    SELECT 'controlled evidence from an extractor that is no rule', v.source_doc_id, count(*)
    FROM graph_evidence v ANTI JOIN by_rule USING ({_KEY}, source_doc_id, source_locator)
    WHERE v.kind = 'extracted' GROUP BY v.source_doc_id
    UNION ALL
    SELECT 'controlled edge that only a model asserts', '', count(*) FROM (
        SELECT {_KEY} FROM graph_edge e
        WHERE NOT EXISTS (
            FROM graph_evidence v
            WHERE (v.src_type, v.src, v.dst_type, v.dst, v.type) = (e.src_type, e.src, e.dst_type, e.dst, e.type)
                AND CASE
                    WHEN v.kind = 'extracted' THEN v.type NOT IN ('parent_of', 'derives', 'competes_with', 'mentions')
                    WHEN v.kind = 'profile' THEN v.type IN ('parent_of', 'derives', 'competes_with')
                        AND v.source_doc_id = 'company_profile'
                    ELSE v.kind IN ('metadata', 'text', 'fact', 'external') AND v.type = 'mentions'
                        AND v.src_type = 'doc'
                END
        )
    ) ANTI JOIN accepted USING ({_KEY})
    UNION ALL
    SELECT 'evidence of a decision that nobody took', '', count(*)
    FROM graph_evidence v ANTI JOIN accepted USING ({_KEY}) WHERE v.kind IN ('review', 'reviewed')
"""

_ANSWERED = f"""
    SELECT {", ".join(f"v.{name}" for name in _KEY.split(", "))}, v.source_doc_id, a.proposals,
        a.answer_id IS NOT NULL AS kept, a.text_hash = sha256(c.text) AS same_text
    FROM model_evidence v
    LEFT JOIN model_answer a USING (answer_id)
    LEFT JOIN narrative_chunk c
        ON c.doc_id = v.source_doc_id AND c.chunk_id = v.chunk_id AND c.version = v.version AND c.active
    WHERE v.answer_id <> ''
"""


def audit_model_edges(store: ChunkStore, profile: DomainProfile) -> AuditResult:
    """Every model edge carries both markers and agrees with its extractor's record; none is controlled (SPEC 5.3)."""
    result = AuditResult()
    names = _codes(profile)
    with store.connect() as connection:
        name = references(connection)
        for table in ("model_edge", "model_evidence", "extraction_record"):
            row = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0]
            result.counts[table] = int(row[0])
        result.checked = sum(result.counts.values())
        for why, doc_id, n in connection.execute(f"SELECT * FROM ({_BROKEN}) WHERE n > 0 ORDER BY ALL").fetchall():
            result.violate(f"{why} ({name(doc_id)})" if doc_id else why, int(n))
        _compare_with_answers(connection, names, result)
    return result.conclude(
        f"All {result.counts['model_edge']} model edges are marked, apart, and as their extractor recorded them.",
        "entries break the marking of model edges. Run refresh to build the graph again; do not read it before.",
    )


def _compare_with_answers(connection: duckdb.DuckDBPyConnection, names: dict[str, str], result: AuditResult) -> None:
    """Every piece of evidence that names a kept answer is something that this answer proposed, about that text."""
    name = references(connection)
    proposed: dict[str, set[tuple[str, str, str]]] = {}
    for _, src, _, dst, kind, doc_id, proposals, kept, same_text in connection.execute(_ANSWERED).fetchall():
        result.checked += 1
        if not kept or not same_text:
            result.violate(f"evidence without the answer it names ({name(doc_id)})")
            continue
        if proposals not in proposed:
            proposed[proposals] = {
                (names.get(_bare(item[0]), _bare(item[0])), names.get(_bare(item[1]), _bare(item[1])), _kind(item[2]))
                for item in json.loads(proposals)["items"]
                if item
            }
        codes = set(names.values())
        edge = (src if src in codes else _bare(src), dst if dst in codes else _bare(dst), kind)
        if edge not in proposed[proposals]:
            result.violate(f"edge that its answer does not propose ({name(doc_id)})")


def audit_external_model_edges(store: ChunkStore, profile: DomainProfile) -> AuditResult:
    """No end and no type of a model edge names an external entity (SPEC 5.6)."""
    result = AuditResult()
    outsiders = {**{shown: shown for shown in profile.external_entities.values()}, **profile.external_entities}
    gate = SecurityGate({alias: shown for alias, shown in outsiders.items() if alias}, profile.home_company_name)
    letters = {_letters(alias) for alias in outsiders} - {""}
    with store.connect() as connection:
        name = references(connection)
        rows = connection.execute(
            """
            SELECT name, min(doc_id), count(*), bool_or(external) FROM (
                SELECT unnest([src, dst, type]) AS name, source_doc_id AS doc_id,
                    src_type = 'external_entity' OR dst_type = 'external_entity' AS external FROM model_evidence
                UNION ALL SELECT unnest([src, dst, type]), '', FALSE FROM model_edge
                UNION ALL SELECT unnest([id, label]), source_doc_id, type = 'external_entity' FROM model_node
            ) GROUP BY name ORDER BY name
            """
        ).fetchall()
        for shown, doc_id, n, external in rows:
            result.checked += int(n)
            words = {_letters(word) for word in re.split(r"[\W_]+", shown)}
            if external or _letters(shown) in letters or words & letters or gate.detect(shown).external_entity:
                result.violate(name(doc_id) if doc_id else "a model edge", int(n))
    return result.conclude(
        f"None of {result.checked} ends and types of model edges names an external entity.",
        "ends or types of model edges name an external entity. Run refresh: the gate drops them.",
    )


def _codes(profile: DomainProfile) -> dict[str, str]:
    """Return what each folded name of our entities stands for."""
    found: dict[str, set[str]] = {}
    for alias, code in profile.synonym_entities().items():
        found.setdefault(fold_text(alias).strip(), set()).add(code)
    clear = {alias: next(iter(codes)) for alias, codes in found.items() if len(codes) == 1}
    codes = {profile.home_entity_code, *profile.home_entity_labels, *profile.entity_geography, *clear.values()}
    return {**clear, **{_bare(code): code for code in codes if code and _bare(code) not in found}}


def _bare(name: str) -> str:
    return fold_text(name).strip()


def _letters(name: str) -> str:
    return "".join(char for char in fold_text(name) if char.isalnum())


def _kind(kind: str) -> str:
    plain = unicodedata.normalize("NFKD", kind).casefold()
    plain = "".join(char for char in plain if not unicodedata.category(char).startswith("M"))
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
