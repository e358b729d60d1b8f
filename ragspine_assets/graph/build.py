"""The structural graph: what the profile, the facts and the chunks' own entities say, set-based (SPEC 5.2 to 5.4).

Both ways in, `build_relation_graph` for values in memory and `rebuild_graph` for the store, stage the same temporary
tables and share everything behind them, so they cannot disagree. Only differences are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

import duckdb
import pyarrow as pa

from ragspine_assets.graph.adjacency import write_revision
from ragspine_assets.graph.answer_cache import forget_answers
from ragspine_assets.graph.asserted_tables import TEMPORARY as _MODEL_TEMPORARY
from ragspine_assets.graph.asserted_tables import (
    ModelReport,
    stage_asserted,
    withdraw_from_model_tables,
    write_model_tables,
)
from ragspine_assets.graph.differences import count_by_type, same, write_differences
from ragspine_assets.graph.extractors import RelationExtractor
from ragspine_assets.graph.facts import fact_table
from ragspine_assets.graph.graph_store import DuckDBGraphStore, GraphSource
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.review import TEMPORARY as _REVIEW_TEMPORARY
from ragspine_assets.graph.review import ReviewDecision, ReviewReport, stage_review, waiting_edges
from ragspine_assets.graph.screening import ExtractedEdge, Extraction, GraphChunk, extract_relations
from ragspine_assets.graph.temp_tables import (
    CITES_CLOSED,
    CITING,
    FIRST_PLACE,
    RESTRICTED_RANK,
    closed_documents,
    existing_tables,
    guarded_documents,
    label_names,
    registered,
    stage_citations,
    stage_document_states,
    table_of,
    temporary,
    transaction,
)
from ragspine_assets.graph.values import (
    COMPETES_WITH,
    DERIVES,
    DOC,
    ENTITY,
    EXTERNAL_ENTITY,
    MENTIONS,
    METRIC,
    PARENT_OF,
    PROFILE_SOURCE,
    Fact,
)
from ragspine_assets.policy import DomainProfile, Sensitivity, read_label
from ragspine_assets.store.schema import TABLES

_NODE = tuple(TABLES["graph_node"])
_EDGE = tuple(TABLES["graph_edge"])
_EVIDENCE = tuple(TABLES["graph_evidence"])
_KEPT = {"graph_node": _NODE, "graph_edge": _EDGE, "graph_evidence": _EVIDENCE}
_TEMPORARY = (
    "gx_state",
    CITING,
    "gx_doc",
    "gx_chunk",
    "gx_text",
    "gx_fact",
    "gx_found",
    "gx_pending",
    *_MODEL_TEMPORARY,
    *_REVIEW_TEMPORARY,
    *(f"gx_{what}_{name}" for name in _KEPT for what in ("wanted", "added", "removed")),
)
_SCAN_BATCH_ROWS = 4096


class ChunkLike(Protocol):
    """What the graph needs of a chunk; `chunking.Chunk` and `store.StoredChunk` have it.

    `sensitivity`, `chunk_id`, `seq` and `version` are used where they exist. A chunk without the attribute
    `sensitivity` is INTERNAL; one with a label outside the lattice, an empty one too, is RESTRICTED (SPEC 1.8).
    """

    @property
    def doc_id(self) -> str:
        """The document."""
        ...

    @property
    def entity(self) -> str:
        """The entity its metadata name, or empty."""
        ...

    @property
    def text(self) -> str:
        """Its text."""
        ...

    @property
    def source_locator(self) -> str:
        """Where in the document it stands."""
        ...


@dataclass(frozen=True)
class GraphReport:
    """What a build did and what there is now. No RESTRICTED document is in any number.

    Attributes:
        nodes: nodes by type.
        edges: edges by type.
        evidence: evidence by edge type.
        nodes_added, nodes_removed, nodes_changed: nodes by type; changed ones kept their key.
        edges_added, edges_removed: edges by type.
        evidence_added, evidence_removed: evidence by edge type.
        documents: documents that stand in the graph as nodes.
        documents_scanned: documents whose text was searched in this build; the others' findings were kept.
        ambiguous_aliases: aliases of the profile that stand for two things and therefore name neither.
        refused: edges that extractors offered and the seam refused, by reason.
        written: whether anything was written.
        digest: sha256 of nodes, edges and evidence, independent of order and machine; of the controlled graph only.
        model: what models assert, apart from all numbers above.
        review: how the review of that stands.
    """

    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    evidence: Mapping[str, int]
    nodes_added: Mapping[str, int] = field(default_factory=dict)
    nodes_removed: Mapping[str, int] = field(default_factory=dict)
    nodes_changed: Mapping[str, int] = field(default_factory=dict)
    edges_added: Mapping[str, int] = field(default_factory=dict)
    edges_removed: Mapping[str, int] = field(default_factory=dict)
    evidence_added: Mapping[str, int] = field(default_factory=dict)
    evidence_removed: Mapping[str, int] = field(default_factory=dict)
    documents: int = 0
    documents_scanned: int = 0
    ambiguous_aliases: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    written: bool = False
    digest: str = ""
    model: ModelReport = field(default_factory=ModelReport)
    review: ReviewReport = field(default_factory=ReviewReport)

    @property
    def content_digest(self) -> str:
        """sha256 of all of it: that of the controlled graph where no model asserts anything."""
        return sha256((self.digest + self.model.digest).encode()).hexdigest() if self.model.digest else self.digest


def build_relation_graph(
    profile: DomainProfile,
    *,
    facts: Iterable[Fact] = (),
    chunks: Iterable[ChunkLike] = (),
    store: GraphSource | None = None,
    relation_extractor: RelationExtractor | None = None,
) -> DuckDBGraphStore:
    """Build the relation graph of values in memory and return it (SPEC 5.2).

    The graph is a function of what is handed in: building twice into one store gives the same as once, and what an
    earlier build held and this one does not is gone. A document is RESTRICTED when one of its chunks is; it and the
    facts that cite it leave no trace (SPEC 5.4). Facts of documents that no chunk and no store knows are kept as
    `external` evidence.

    Args:
        profile: the domain profile.
        facts: the facts.
        chunks: active chunks, of any type with the attributes of `ChunkLike`.
        store: where the graph is kept; a new one in memory when None.
        relation_extractor: called behind the seam of SPEC 5.3 when given. Edges of an extractor that does not declare
            `deterministic = True` are a model's, and do not enter the controlled graph.

    Raises:
        ValueError: if a chunk has no `doc_id`, or a derived dimension has the name of a node type.
    """
    graph = store if isinstance(store, DuckDBGraphStore) else DuckDBGraphStore(store)
    vocabulary = Vocabulary(profile)
    given = list(chunks)
    ranks: dict[str, int] = {}
    for chunk in given:
        if not chunk.doc_id:
            raise ValueError("a chunk without doc_id cannot be cited; the graph takes none")
        label = read_label(chunk.sensitivity) if hasattr(chunk, "sensitivity") else Sensitivity.INTERNAL  # pyright: ignore[reportAttributeAccessIssue]
        ranks[chunk.doc_id] = max(ranks.get(chunk.doc_id, 0), label.rank)
    stated = pa.table(
        {"doc_id": list(ranks), "rank": list(ranks.values())},
        schema=pa.schema([("doc_id", pa.string()), ("rank", pa.int32())]),
    )
    with graph.connect() as con:
        graph.create_tables(con)
        with transaction(con), temporary(con, *_TEMPORARY), registered(con, gx_stated_rank=stated):
            stage_document_states(con)
            con.execute(_MERGE_STATES)
            servable = frozenset(
                doc_id
                for (doc_id,) in con.execute("SELECT doc_id FROM gx_state WHERE active AND NOT restricted").fetchall()
            )
            open_chunks = [
                _graph_chunk(chunk, position) for position, chunk in enumerate(given) if chunk.doc_id in servable
            ]
            extraction = (
                Extraction()
                if relation_extractor is None
                else extract_relations(relation_extractor, open_chunks, vocabulary)
            )
            with registered(con, gx_chunk_in=_chunk_rows(open_chunks), gx_text_in=_text_rows(open_chunks, vocabulary)):
                con.execute("CREATE TEMP TABLE gx_chunk AS SELECT * FROM gx_chunk_in")
                con.execute("CREATE TEMP TABLE gx_text AS SELECT * FROM gx_text_in")
            with registered(con, gx_fact_in=fact_table(facts)):
                stage_citations(con, ["gx_fact_in"], closed_documents(con, removed=True), guarded_documents(con))
                con.execute(_STAGE_FACTS.format("gx_fact_in"))
            _derive_and_write(con, profile, vocabulary, extraction, None)
    return graph


def rebuild_graph(
    con: duckdb.DuckDBPyConnection,
    profile: DomainProfile,
    *,
    extraction: Extraction | None = None,
    decisions: Sequence[ReviewDecision] | None = None,
    progress: Callable[[int], None] | None = None,
) -> GraphReport:
    """Bring the graph tables of a store up to date with its active chunks and facts (SPEC 5.2 to 5.4).

    Text is searched only where a document's version has not been searched for this profile's names yet. Only
    differences are written, all in one transaction; when there are none nothing is. Afterwards no table of the graph,
    nor `fact`, names a RESTRICTED document.

    Args:
        con: a connection to the store with all its tables.
        profile: the domain profile.
        extraction: what `seam.extract_relations` accepted, for chunks read with `servable_chunks`. It is a value and
            not an extractor, because no connection may be held while a model answers (SPEC 3.6). Edges whose chunk is
            no longer active and servable are left out.
        decisions: all decisions of reviewers; None keeps those that are stored (SPEC 5.9).
        progress: called with the number of chunks searched so far.

    Returns:
        What was done, without any text.
    """
    vocabulary = Vocabulary(profile)
    with transaction(con), temporary(con, *_TEMPORARY):
        stage_document_states(con)
        con.execute(
            """
            CREATE TEMP TABLE gx_chunk AS
            SELECT doc_id, version, chunk_id, coalesce(entity, '') AS entity,
                coalesce(nullif(source_locator, ''), doc_id || '#chunk') AS source_locator
            FROM narrative_chunk JOIN gx_state s USING (doc_id)
            WHERE narrative_chunk.active AND NOT s.restricted AND NOT s.removed
            """
        )
        purged = _purge_scans(con, vocabulary.digest)
        scanned = _scan(con, vocabulary, progress)
        con.execute(
            "CREATE TEMP TABLE gx_text AS SELECT doc_id, version, entity, chunk_id, source_locator FROM graph_mention"
        )
        stage_citations(con, ["fact"], closed_documents(con))
        hidden = con.execute(f"DELETE FROM fact WHERE {CITES_CLOSED}").fetchall()
        stage_citations(con, ["fact"], closed_documents(con, removed=True), guarded_documents(con))
        con.execute(_STAGE_FACTS.format("fact"))
        report = _derive_and_write(con, profile, vocabulary, extraction or Extraction(), decisions)
        forgotten = forget_answers(con)
    return GraphReport(
        **{
            **vars(report),
            "documents_scanned": scanned,
            "refused": dict(extraction.refused) if extraction else {},
            "written": report.written or scanned > 0 or purged + forgotten > 0 or bool(hidden and hidden[0][0]),
        }
    )


def servable_chunks(con: duckdb.DuckDBPyConnection) -> list[GraphChunk]:
    """Return the active chunks of documents that are not RESTRICTED, in the order of document and number (SPEC 5.3).

    They are what an extractor may see. Read them, close the connection, extract, and hand the result to
    `rebuild_graph`.
    """
    with temporary(con, "gx_state"):
        stage_document_states(con)
        rows = con.execute(
            """
            SELECT doc_id, chunk_id, seq, entity, text, source_locator, sensitivity, version FROM narrative_chunk
            JOIN gx_state s USING (doc_id) WHERE narrative_chunk.active AND NOT s.restricted AND NOT s.removed
            ORDER BY doc_id, seq, version
            """
        ).fetchall()
    return [GraphChunk(*row) for row in rows]


def withdraw_documents(con: duckdb.DuckDBPyConnection, doc_ids: Iterable[str]) -> None:
    """Remove every trace of some documents from the graph's tables and from `fact`, within the caller's transaction.

    For labels that are raised: what only these documents supported goes; what others support too stays, with the
    others' evidence. Once the label is raised, a `rebuild_graph` right after writes nothing more (SPEC 5.4).
    """
    ids = pa.table({"doc_id": sorted(set(doc_ids))}, schema=pa.schema([("doc_id", pa.string())]))
    tables = existing_tables(con)
    if not ids.num_rows:
        return
    with transaction(con), registered(con, gx_gone=ids), temporary(con, "gx_lost", "gx_doc", "gx_supported", CITING):
        for table in ("graph_scan", "graph_mention"):
            if table in tables:
                con.execute(f"DELETE FROM {table} WHERE doc_id IN (FROM gx_gone)")
        stage_citations(con, sorted(tables & {"fact", "graph_evidence"}), ids["doc_id"].to_pylist())
        if "fact" in tables:
            con.execute(f"DELETE FROM fact WHERE {CITES_CLOSED}")
        if not tables.issuperset(_KEPT):
            return
        con.execute(
            f"CREATE TEMP TABLE gx_lost AS SELECT DISTINCT source_doc_id AS doc_id FROM graph_evidence"
            f" WHERE kind <> 'profile' AND {CITES_CLOSED}"
        )
        write_revision(con, None)
        con.execute(f"DELETE FROM graph_evidence WHERE kind <> 'profile' AND {CITES_CLOSED}")
        con.execute(f"DELETE FROM graph_node WHERE type = '{DOC}' AND id IN (FROM gx_gone)")
        withdraw_from_model_tables(con)
        con.execute(
            f"DELETE FROM graph_edge WHERE NOT EXISTS (FROM graph_evidence e WHERE {same('e', 'graph_edge', _EDGE)})"
        )
        # A document outside the store stands by the facts that cite it, and these may just have gone.
        scanned = "AND id NOT IN (SELECT doc_id FROM graph_scan)" if "graph_scan" in tables else ""
        con.execute(
            f"DELETE FROM graph_node WHERE type = '{DOC}' AND id IN (FROM gx_lost) {scanned}"
            f" AND id NOT IN (SELECT src FROM graph_edge WHERE src_type = '{DOC}')"
        )
        with registered(con, gx_lattice=label_names()):
            con.execute(
                f"CREATE TEMP TABLE gx_doc AS SELECT id AS doc_id, rank FROM graph_node"
                f" JOIN gx_lattice ON gx_lattice.label = sensitivity WHERE type = '{DOC}'"
            )
            con.execute(f"CREATE TEMP TABLE gx_supported AS {_supported('graph_evidence', 'graph_node')}")
        dependent = f"graph_node.source_doc_id <> '{PROFILE_SOURCE}' AND graph_node.type <> '{DOC}'"
        match = "s.type = graph_node.type AND s.id = graph_node.id"
        con.execute(f"DELETE FROM graph_node WHERE {dependent} AND NOT EXISTS (FROM gx_supported s WHERE {match})")
        con.execute(
            "UPDATE graph_node SET sensitivity = s.sensitivity, source_doc_id = s.source_doc_id,"
            f" source_locator = s.source_locator FROM gx_supported s WHERE {match} AND {dependent}"
        )


def graph_digest(con: duckdb.DuckDBPyConnection) -> str:
    """Return a sha256 of the stored nodes, edges and evidence; the same content gives the same digest anywhere."""
    parts = [con.execute(_row_sums(table, columns)).fetchall()[0] for table, columns in _KEPT.items()]
    return sha256(repr([tuple(int(number) for number in part) for part in parts]).encode()).hexdigest()


def _row_sums(table: str, columns: Sequence[str]) -> str:
    # A sum over hashes of rows needs no sort and no memory, and does not depend on the order of rows.
    hashed = f"SELECT sha256(concat_ws(chr(31), {', '.join(columns)})) AS h FROM {table}"
    halves = ", ".join(f"coalesce(sum(('0x' || substr(h, {start}, 16))::UBIGINT), 0)" for start in (1, 17))
    return f"SELECT count(*), {halves} FROM ({hashed})"


_MERGE_STATES = f"""
    CREATE OR REPLACE TEMP TABLE gx_state AS
    SELECT
        doc_id,
        greatest(coalesce(g.rank, 0), coalesce(s.rank, 0)) AS rank,
        greatest(coalesce(g.rank, 0), coalesce(s.rank, 0)) >= {RESTRICTED_RANK} AS restricted,
        coalesce(s.removed, FALSE) AND g.doc_id IS NULL AS removed,
        g.doc_id IS NOT NULL AS active
    FROM gx_state s FULL JOIN gx_stated_rank g USING (doc_id)
"""

_STAGE_FACTS = f"""
    CREATE TEMP TABLE gx_fact AS
    SELECT f.entity, f.metric_code, f.source_doc_id AS doc_id, f.source_locator,
        CASE WHEN s.doc_id IS NULL THEN 'external' ELSE 'fact' END AS kind
    FROM {{}} f LEFT JOIN gx_state s ON s.doc_id = f.source_doc_id
    WHERE NOT {CITES_CLOSED}
"""


def _supported(evidence: str, profile_nodes: str) -> str:
    """Return the query for nodes that evidence of documents names: who they are, and where they come from.

    The label is that of the most open document that names them, the source the first place in natural order.
    """
    return f"""
        SELECT n.type, n.id, gx_lattice.label AS sensitivity, n.source_doc_id, n.source_locator
        FROM (
            SELECT type, id, coalesce(min(rank), {Sensitivity.INTERNAL.rank}) AS rank,
                arg_min(source_doc_id, place) AS source_doc_id, arg_min(source_locator, place) AS source_locator
            FROM (
                SELECT *, {FIRST_PLACE} AS place
                FROM (
                    SELECT dst_type AS type, dst AS id, source_doc_id, source_locator
                    FROM {evidence} WHERE kind <> 'profile'
                    UNION
                    SELECT src_type, src, source_doc_id, source_locator
                    FROM {evidence} WHERE kind <> 'profile' AND src_type <> '{DOC}'
                ) e
                WHERE NOT EXISTS (
                    FROM {profile_nodes} k
                    WHERE k.type = e.type AND k.id = e.id AND k.source_doc_id = '{PROFILE_SOURCE}'
                )
            ) LEFT JOIN gx_doc ON doc_id = source_doc_id
            GROUP BY type, id
        ) n JOIN gx_lattice USING (rank)
    """


def _purge_scans(con: duckdb.DuckDBPyConnection, vocabulary: str) -> int:
    """Drop findings of documents that are gone, secret, of another version, or searched for other names."""
    servable = "SELECT doc_id, version FROM gx_chunk"
    dropped = con.execute(
        f"DELETE FROM graph_scan WHERE vocabulary <> $vocabulary OR (doc_id, version) NOT IN ({servable})",
        {"vocabulary": vocabulary},
    ).fetchall()
    orphans = con.execute(
        "DELETE FROM graph_mention WHERE (doc_id, version) NOT IN (SELECT doc_id, version FROM graph_scan)"
    ).fetchall()
    return int(dropped[0][0]) + int(orphans[0][0])


def _scan(con: duckdb.DuckDBPyConnection, vocabulary: Vocabulary, progress: Callable[[int], None] | None) -> int:
    """Search the text of what has not been searched yet, and return of how many documents."""
    con.execute(
        """
        CREATE TEMP TABLE gx_pending AS
        SELECT DISTINCT doc_id, version FROM gx_chunk
        WHERE (doc_id, version) NOT IN (SELECT doc_id, version FROM graph_scan)
        """
    )
    pending = con.execute("SELECT count(*) FROM gx_pending").fetchall()[0][0]
    if not pending:
        return 0
    reader = con.sql(
        """
        SELECT doc_id, version, chunk_id, text,
            coalesce(nullif(source_locator, ''), doc_id || '#chunk') AS source_locator
        FROM narrative_chunk
        WHERE active AND (doc_id, version) IN (SELECT doc_id, version FROM gx_pending)
        """
    ).to_arrow_reader(_SCAN_BATCH_ROWS)
    found: list[pa.RecordBatch] = []
    done = 0
    for batch in reader:
        rows: list[int] = []
        entities: list[str] = []
        for row, text in enumerate(batch.column("text").to_pylist()):
            for entity in vocabulary.entities_in(text):
                rows.append(row)
                entities.append(entity)
        kept = batch.drop_columns(["text"]).take(pa.array(rows, pa.int64()))
        found.append(kept.append_column("entity", pa.array(entities, pa.string())))
        done += batch.num_rows
        if progress:
            progress(done)
    if found:
        with registered(con, gx_mention_in=pa.Table.from_batches(found)):
            con.execute("INSERT INTO graph_mention BY NAME SELECT DISTINCT * FROM gx_mention_in ORDER BY ALL")
    con.execute(
        "INSERT INTO graph_scan (doc_id, version, vocabulary) SELECT *, $vocabulary FROM gx_pending ORDER BY ALL",
        {"vocabulary": vocabulary.digest},
    )
    return int(pending)


def _graph_chunk(chunk: ChunkLike, position: int) -> GraphChunk:
    return GraphChunk(
        doc_id=chunk.doc_id,
        chunk_id=getattr(chunk, "chunk_id", ""),
        seq=getattr(chunk, "seq", position),
        entity=chunk.entity or "",
        text=chunk.text,
        source_locator=chunk.source_locator or f"{chunk.doc_id}#chunk",
        sensitivity=getattr(chunk, "sensitivity", Sensitivity.INTERNAL.value),
        version=getattr(chunk, "version", 0),
    )


_CHUNK_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("version", pa.int32()),
        ("chunk_id", pa.string()),
        ("entity", pa.string()),
        ("source_locator", pa.string()),
    ]
)


def _chunk_rows(chunks: Sequence[GraphChunk]) -> pa.Table:
    return table_of({name: [getattr(chunk, name) for chunk in chunks] for name in _CHUNK_SCHEMA.names}, _CHUNK_SCHEMA)


def _text_rows(chunks: Sequence[GraphChunk], vocabulary: Vocabulary) -> pa.Table:
    named = [(chunk, entity) for chunk in chunks for entity in vocabulary.entities_in(chunk.text)]
    table = _chunk_rows([chunk for chunk, _ in named])
    return table.set_column(3, "entity", pa.array([entity for _, entity in named], pa.string()))


@dataclass(frozen=True)
class _ProfileGraph:
    nodes: pa.Table
    edges: pa.Table


def _profile_graph(profile: DomainProfile) -> _ProfileGraph:
    """Return the nodes and edges the profile states, each with the part of the profile that says so."""
    nodes: dict[tuple[str, str], tuple[str, str]] = {}
    edges: dict[tuple[str, str, str, str, str], str] = {}
    home = profile.home_entity_code
    for code in profile.entity_codes():
        nodes[ENTITY, code] = profile.home_entity_labels.get(code, ""), f"home_entity/{code}"
        if home and code != home:
            edges[ENTITY, home, ENTITY, code, PARENT_OF] = f"parent_of/{home}->{code}"
    for name in filter(None, profile.external_entities.values()):
        nodes[EXTERNAL_ENTITY, name] = name, f"external_entities/{name}"
        if home:
            edges[ENTITY, home, EXTERNAL_ENTITY, name, COMPETES_WITH] = f"external_entities/{home}->{name}"
    derived = [dimension for dimension in profile.dimensions if dimension.derived_from]
    for dimension in profile.dimensions:
        if dimension.name == METRIC:
            for code in filter(None, dimension.synonyms.values()):
                nodes[METRIC, code] = dimension.labels.get(code, ""), f"metric/{code}"
    for dimension in derived:
        if dimension.name in {EXTERNAL_ENTITY, DOC}:
            raise ValueError(
                f"dimension {dimension.name!r} is derived, and its name is that of a kind of node; give it another name"
            )
        for code in filter(None, dimension.derivation.values()):
            place = f"derivation/{dimension.name}/{code}"
            nodes.setdefault((dimension.name, code), (dimension.labels.get(code, ""), place))
    for dimension in derived:
        origin = str(dimension.derived_from)
        for source, target in dimension.derivation.items():
            # What a derivation starts from must be a node, or the edge would dangle.
            if target and (origin, source) in nodes:
                edges[origin, source, dimension.name, target, DERIVES] = (
                    f"derivation/{dimension.name}/{source}->{target}"
                )
    return _ProfileGraph(
        table_of(
            {
                "type": [kind for kind, _ in nodes],
                "id": [node for _, node in nodes],
                "label": [label for label, _ in nodes.values()],
                "sensitivity": [Sensitivity.INTERNAL.value] * len(nodes),
                "source_doc_id": [PROFILE_SOURCE] * len(nodes),
                "source_locator": [f"{PROFILE_SOURCE}#{place}" for _, place in nodes.values()],
            },
            pa.schema([(column, pa.string()) for column in _NODE]),
        ),
        table_of(
            {
                **{column: [key[number] for key in edges] for number, column in enumerate(_EDGE)},
                "source_locator": [f"{PROFILE_SOURCE}#{place}" for place in edges.values()],
            },
            pa.schema([(column, pa.string()) for column in (*_EDGE, "source_locator")]),
        ),
    )


def _resolved(con: duckdb.DuckDBPyConnection, query: str, resolve: Callable[[str], tuple[str, str]]) -> pa.Table:
    """Return, for each distinct name a query gives, the node it stands for: `raw, type, id`."""
    names = [str(name) for (name,) in con.execute(query).fetchall() if name and str(name).strip()]
    nodes = [resolve(name) for name in names]
    return table_of(
        {"raw": names, "type": [kind for kind, _ in nodes], "id": [node for _, node in nodes]},
        pa.schema([("raw", pa.string()), ("type", pa.string()), ("id", pa.string())]),
    )


_FOUND = """
    CREATE TEMP TABLE gx_found AS
    SELECT doc_id, type, id, min(kind) AS kind, source_locator, chunk_id, version FROM (
        SELECT doc_id, e.type, e.id, 'metadata' AS kind, source_locator, chunk_id, version
        FROM gx_chunk JOIN gx_entity e ON e.raw = entity
        UNION ALL
        SELECT doc_id, '{entity}', entity, 'text', source_locator, chunk_id, version FROM gx_text
        UNION ALL
        SELECT doc_id, e.type, e.id, kind, source_locator, '', 0 FROM gx_fact JOIN gx_entity e ON e.raw = entity
        UNION ALL
        SELECT doc_id, m.type, m.id, kind, source_locator, '', 0 FROM gx_fact JOIN gx_metric m ON m.raw = metric_code
    ) GROUP BY ALL
"""

_WANTED_EVIDENCE = f"""
    CREATE TEMP TABLE gx_wanted_graph_evidence AS
    SELECT {", ".join(_EDGE)}, 'profile' AS kind, '{PROFILE_SOURCE}' AS source_doc_id, source_locator, '' AS chunk_id,
        0::INTEGER AS version
    FROM gx_profile_edge
    UNION ALL
    SELECT '{DOC}', doc_id, type, id, '{MENTIONS}', kind, doc_id, source_locator, chunk_id, version::INTEGER
    FROM gx_found
    UNION ALL
    SELECT DISTINCT {", ".join(f"x.{column}" for column in _EDGE)}, 'extracted', doc_id, source_locator, x.chunk_id,
        x.version::INTEGER
    FROM gx_extracted x SEMI JOIN gx_chunk USING (doc_id, version, source_locator)
    UNION ALL
    SELECT {", ".join(_EVIDENCE)} FROM gx_accepted
"""


def _wanted_nodes() -> str:
    return f"""
        CREATE TEMP TABLE gx_wanted_graph_node AS
        SELECT {", ".join(_NODE)} FROM gx_profile_node
        UNION ALL
        SELECT '{DOC}', doc_id, doc_id, gx_lattice.label, doc_id, doc_id || '#doc'
        FROM gx_doc JOIN gx_lattice USING (rank)
        UNION ALL
        SELECT type, id, '', sensitivity, source_doc_id, source_locator
        FROM ({_supported("gx_wanted_graph_evidence", "gx_profile_node")})
    """


def _derive_and_write(
    con: duckdb.DuckDBPyConnection,
    profile: DomainProfile,
    vocabulary: Vocabulary,
    extraction: Extraction,
    decisions: Sequence[ReviewDecision] | None,
) -> GraphReport:
    """Derive the graph from the staged tables and write what differs from the stored one."""
    stated = _profile_graph(profile)
    entities = _resolved(
        con, "SELECT entity FROM gx_chunk UNION SELECT entity FROM gx_fact ORDER BY ALL", vocabulary.resolve_entity
    )
    metrics = _resolved(con, "SELECT DISTINCT metric_code FROM gx_fact ORDER BY ALL", vocabulary.resolve_metric)
    with registered(
        con,
        gx_profile_node=stated.nodes,
        gx_profile_edge=stated.edges,
        gx_entity=entities,
        gx_metric=metrics,
        gx_extracted=_extracted_rows(extraction.edges),
        gx_lattice=label_names(),
    ):
        con.execute(
            f"""
            CREATE TEMP TABLE gx_doc AS
            SELECT doc_id, coalesce(s.rank, {Sensitivity.INTERNAL.rank}) AS rank
            FROM (SELECT doc_id FROM gx_chunk UNION SELECT doc_id FROM gx_fact) LEFT JOIN gx_state s USING (doc_id)
            """
        )
        con.execute(_FOUND.format(entity=ENTITY))
        stage_asserted(con, extraction)
        review = stage_review(con, decisions, vocabulary)
        con.execute(_WANTED_EVIDENCE)
        con.execute(
            f"CREATE TEMP TABLE gx_wanted_graph_edge AS"
            f" SELECT DISTINCT {', '.join(_EDGE)} FROM gx_wanted_graph_evidence"
        )
        con.execute(_wanted_nodes())
        changes = {name: write_differences(con, name, columns) for name, columns in _KEPT.items()}
        documents = con.execute("SELECT count(*) FROM gx_doc").fetchall()
        model = write_model_tables(con, extraction)
    written = any(change.written for change in changes.values())
    digest = graph_digest(con)
    if written:
        write_revision(con, digest)
    nodes, edges, evidence = (changes[name] for name in _KEPT)
    return GraphReport(
        nodes=count_by_type(con, "graph_node"),
        edges=count_by_type(con, "graph_edge"),
        evidence=count_by_type(con, "graph_evidence"),
        nodes_added=nodes.added,
        nodes_removed=nodes.removed,
        nodes_changed=nodes.changed,
        edges_added=edges.added,
        edges_removed=edges.removed,
        evidence_added=evidence.added,
        evidence_removed=evidence.removed,
        documents=int(documents[0][0]),
        ambiguous_aliases=vocabulary.ambiguous,
        written=written or model.written or review.written,
        digest=digest,
        model=model,
        review=replace(review, waiting=waiting_edges(con)),
    )


_EXTRACTED_SCHEMA = pa.schema(
    [
        *((column, pa.string()) for column in _EDGE),
        ("doc_id", pa.string()),
        ("source_locator", pa.string()),
        ("chunk_id", pa.string()),
        ("version", pa.int32()),
    ]
)


def _extracted_rows(edges: Sequence[ExtractedEdge]) -> pa.Table:
    return table_of(
        {name: [getattr(edge, name) for edge in edges] for name in _EXTRACTED_SCHEMA.names}, _EXTRACTED_SCHEMA
    )
