"""Reading the graph: nodes, neighbours, traversals, evidence (SPEC 5.8).

What is returned is read from the tables; only the way of a traversal is found on arrays, which are made again when the
graph has changed. Orders are fixed: nodes by type and id, edges by ends and type, evidence by natural order of place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

import duckdb

from ragspine_assets.errors import SettingError
from ragspine_assets.graph.adjacency import Adjacency, Direction, Key, graph_token
from ragspine_assets.graph.asserted_tables import MODEL_TABLES
from ragspine_assets.graph.temp_tables import existing_tables
from ragspine_assets.graph.values import (
    DOC,
    EDGE_META_ANSWER,
    EDGE_META_CHUNK,
    EDGE_META_DERIVED,
    EDGE_META_MODEL,
    EDGE_META_VERIFIED,
    ENTITY,
    EXTERNAL_ENTITY,
    METRIC,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    Evidence,
    GraphEdge,
    GraphNode,
    NodeList,
    Subgraph,
    is_unverified,
)
from ragspine_assets.natural_order import natural_key
from ragspine_assets.store.database import memory_database, open_database
from ragspine_assets.store.schema import TABLES

DEFAULT_DEPTH = 3
"""How far `traverse` may go unless told otherwise, in edges (SPEC 5.8)."""
MAX_PATH = 6
"""How long a way `path` looks for unless told otherwise, in edges."""

GRAPH_TABLES = ("graph_node", "graph_edge", "graph_evidence")
"""The controlled tables."""


class ConnectionSource(Protocol):
    """Something that opens a connection for a while; `store.ChunkStore` does."""

    def connect(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Return a context manager that yields a connection."""
        ...


@runtime_checkable
class GraphStore(Protocol):
    """The reads every graph store offers (SPEC 5.8). Controlled edges only, unless asked."""

    def get_node(
        self, node_id: str, node_type: str | None = None, *, include_model_derived: bool = False
    ) -> GraphNode | None:
        """Return one node, or None."""
        ...

    def neighbors(
        self,
        node_id: str,
        *,
        node_type: str | None = None,
        edge_type: str | None = None,
        direction: Direction = "out",
        include_model_derived: bool = False,
    ) -> list[GraphNode]:
        """Return the nodes one edge away."""
        ...

    def subgraph(
        self,
        seeds: Sequence[str],
        *,
        depth: int = 1,
        edge_types: Sequence[str] | None = None,
        include_model_derived: bool = False,
    ) -> Subgraph:
        """Return what lies around some nodes."""
        ...

    def traverse(
        self,
        start: str,
        *,
        node_type: str | None = None,
        edge_types: Sequence[str] | None = None,
        max_depth: int = DEFAULT_DEPTH,
        direction: Direction = "out",
        include_model_derived: bool = False,
    ) -> list[GraphNode]:
        """Return the nodes that can be reached, nearest first."""
        ...


GraphSource = ConnectionSource | duckdb.DuckDBPyConnection | str | Path
"""Where a graph can be kept: a connection, something that opens one, or a database file."""

_EDGE = tuple(TABLES["graph_edge"])
_NODE = tuple(TABLES["graph_node"])
# Where one id names nodes of several kinds, the kind a caller most likely means.
_PREFERENCE = (ENTITY, EXTERNAL_ENTITY, METRIC)


class DuckDBGraphStore:
    """The relation graph in DuckDB (SPEC 5.8).

    Args:
        source: an open connection, which stays open and the caller's; a `ChunkStore` or anything else with `connect()`,
            opened for each read; the path of a database; None for a database in memory of its own.
    """

    def __init__(self, source: GraphSource | None = None) -> None:
        self._adjacency: dict[bool, tuple[tuple[object, ...], Adjacency]] = {}
        if source is None:
            self._source: ConnectionSource | duckdb.DuckDBPyConnection | Path = memory_database()
        elif isinstance(source, (str, Path)):
            self._source = Path(source)
        elif isinstance(source, duckdb.DuckDBPyConnection) or hasattr(source, "connect"):
            self._source = source  # pyright: ignore[reportAttributeAccessIssue]
        else:
            raise TypeError(
                "a graph is kept in DuckDB: give a connection, a ChunkStore, a path, or nothing for one in memory"
            )

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection to the database; it is closed afterwards unless the caller opened it."""
        if isinstance(self._source, duckdb.DuckDBPyConnection):
            opened: AbstractContextManager[duckdb.DuckDBPyConnection] = nullcontext(self._source)
        elif isinstance(self._source, Path):
            opened = open_database(self._source)
        else:
            opened = self._source.connect()
        with opened as con:
            yield con

    def create_tables(self, con: duckdb.DuckDBPyConnection) -> None:
        """Create the graph's tables where they are missing; existing ones are the store's to migrate."""
        for table in sorted({*GRAPH_TABLES, *MODEL_TABLES} - existing_tables(con)):
            columns = ", ".join(f"{name} {kind}" for name, kind in TABLES[table].items())
            con.execute(f"CREATE TABLE {table} ({columns})")

    def count_nodes(self) -> int:
        """Return the number of controlled nodes."""
        return self._number("SELECT count(*) FROM graph_node")

    def count_edges(self) -> int:
        """Return the number of controlled edges."""
        return self._number("SELECT count(*) FROM graph_edge")

    def nodes(self, *, include_model_derived: bool = False) -> list[GraphNode]:
        """Return all nodes, by type and id."""
        with self.connect() as con:
            found = _nodes(con, "FROM graph_node", {})
            if self._with_models(con, include_model_derived):
                found += _model_nodes(con, "FROM model_node", {})
        return sorted(found, key=_node_order)

    def edges(self, *, include_model_derived: bool = False) -> list[GraphEdge]:
        """Return all edges, by ends and type; `metadata` are those of the first evidence.

        An edge that a model asserts and the controlled graph has too is there twice: verified and unverified.
        """
        with self.connect() as con:
            found = _edges(con, "graph_edge", {})
            if self._with_models(con, include_model_derived):
                found += _model_edges(con, "model_edge", {})
        return sorted(found, key=_edge_order)

    def evidence(self, edge: GraphEdge) -> list[Evidence]:
        """Return all evidence of an edge, in natural order of document and place (SPEC 5.3).

        Where the edge leaves the types of its ends open, the evidence of all edges between such names is returned. An
        edge marked as unverified has the evidence of the model, any other one that of the controlled graph.
        """
        conditions = [f"{column} = ${column}" for column in ("src", "dst", "type")]
        parameters = {"src": edge.src, "dst": edge.dst, "type": edge.type}
        for column, value in (("src_type", edge.src_type), ("dst_type", edge.dst_type)):
            if value:
                conditions.append(f"{column} = ${column}")
                parameters[column] = value
        with self.connect() as con:
            if not is_unverified(edge):
                rows = con.execute(
                    "SELECT kind, source_doc_id, source_locator, chunk_id, version FROM graph_evidence"
                    f" WHERE {' AND '.join(conditions)}",
                    parameters,
                ).fetchall()
            elif self._with_models(con, True):
                known = {name: parameters.get(name, "") for name in _EDGE}
                chosen = con.execute(
                    f"SELECT DISTINCT {', '.join(_EDGE)} FROM model_edge WHERE {' AND '.join(conditions)}", parameters
                ).fetchall()
                found = [replace(edge, **{**known, **dict(zip(_EDGE, key, strict=True))}) for key in chosen]
                return sorted((e for some in self.evidence_of(found) for e in some), key=_evidence_order)
            else:
                rows = []
        return sorted((Evidence(*row) for row in rows), key=_evidence_order)

    def evidence_of(self, edges: Sequence[GraphEdge]) -> list[list[Evidence]]:
        """Return all evidence of each of some edges that a read returned, see `evidence`."""
        found: dict[tuple[bool, tuple[str, ...]], list[Evidence]] = {}
        with self.connect() as con:
            sources = [(False, _CONTROLLED_EVIDENCE)]
            if any(map(is_unverified, edges)) and self._with_models(con, True):
                kept = "model_answer" in existing_tables(con)
                sources.append((True, _MODEL_EVIDENCE_AND_TIME if kept else _MODEL_EVIDENCE))
            for unverified, query in sources:
                wanted = [edge for edge in edges if is_unverified(edge) == unverified]
                columns = {f"{name}_s": [getattr(edge, name) for edge in wanted] for name in _EDGE}
                for row in con.execute(query, columns).fetchall():
                    found.setdefault((unverified, tuple(row[:5])), []).append(Evidence(*row[5:]))
        keys = [(is_unverified(edge), tuple(getattr(edge, name) for name in _EDGE)) for edge in edges]
        return [sorted(found.get(key, []), key=_evidence_order) for key in keys]

    def accepted_decisions(self) -> list[tuple[str, str, str]]:
        """Return the decisions behind accepted edges: the hash in their `source_locator`, who decided, and when."""
        with self.connect() as con:
            if "review_decision" not in existing_tables(con):
                return []
            return con.execute(
                f"SELECT substr(sha256(concat_ws(chr(31), {', '.join(_EDGE)})), 1, 16) AS row, decided_by, decided_at"
                " FROM review_decision WHERE verdict = 'accept' ORDER BY row"
            ).fetchall()

    def get_node(
        self, node_id: str, node_type: str | None = None, *, include_model_derived: bool = False
    ) -> GraphNode | None:
        """Return one node, or None.

        Where nodes of several kinds share the id and no type is given, entities come first, then external entities,
        metrics, derived dimensions by name, documents, and last what only a model names.
        """
        condition = "WHERE id = $id AND ($type IS NULL OR type = $type)"
        parameters: dict[str, str | None] = {"id": node_id, "type": node_type}
        with self.connect() as con:
            found = _nodes(con, f"FROM graph_node {condition}", parameters)
            if not found and self._with_models(con, include_model_derived):
                found = _model_nodes(con, f"FROM model_node {condition}", parameters)
        return min(found, key=lambda node: _preference(node.type), default=None)

    def neighbors(
        self,
        node_id: str,
        *,
        node_type: str | None = None,
        edge_type: str | None = None,
        direction: Direction = "out",
        include_model_derived: bool = False,
    ) -> NodeList:
        """Return the nodes one edge away, by type and id.

        Args:
            node_id: where to start.
            node_type: which of the nodes of that id; all of them when None.
            edge_type: only edges of this type.
            direction: `out` follows edges, `in` goes against them, `both` does either.
            include_model_derived: also edges that a model asserted; the answer says which (`NodeList`).
        """
        _check(1, direction)
        hops = [_HOPS[way] for way in ("out", "in") if direction in {way, "both"}]
        with self.connect() as con:
            models = self._with_models(con, include_model_derived)
            met: set[Key] = set()
            asserted: set[Key] = set()
            unverified: list[GraphEdge] = []
            seeds = _seeds(con, (node_id,), node_type, models)
            # Arrays that are there already answer at once; for one question they are not worth making.
            warm = self._warm(con)
            if warm is not None:
                met.update(warm.reach(con, seeds, 1, direction, None if edge_type is None else [edge_type]))
            for kind, node in seeds:
                parameters = {"kind": kind, "node": node, "edge_type": edge_type}
                for hop in hops:
                    if warm is None:
                        met.update(con.execute(hop.format("graph_edge"), parameters).fetchall())
                    if models:
                        asserted.update(con.execute(hop.format("model_edge"), parameters).fetchall())
            if models:
                unverified = _model_edges(con, _INCIDENT, _ends(seeds, edge_type and [edge_type], direction))
            nodes = _nodes_of(con, sorted((met | asserted).difference(seeds)), models)
            return NodeList(_marked(nodes, met), unverified)

    def traverse(
        self,
        start: str,
        *,
        node_type: str | None = None,
        edge_types: Sequence[str] | None = None,
        max_depth: int = DEFAULT_DEPTH,
        direction: Direction = "out",
        include_model_derived: bool = False,
    ) -> NodeList:
        """Return the nodes that can be reached in at most `max_depth` edges, nearest first, then by type and id.

        The start itself is not among them. Arguments are those of `neighbors`.

        Raises:
            ValueError: if `max_depth` is negative or `direction` is none of the three.
        """
        with self.connect() as con:
            models = self._with_models(con, include_model_derived)
            seeds = _seeds(con, (start,), node_type, models)
            distances = self._reach(con, seeds, max_depth, direction, edge_types, models)
            reached = [key for key, distance in distances.items() if distance]
            nodes = _nodes_of(con, reached, models)
            unverified: list[GraphEdge] = []
            if models:
                sure = self._reach(
                    con, _seeds(con, (start,), node_type, False), max_depth, direction, edge_types, False
                )
                nodes = _marked(nodes, sure.keys())
                unverified = _model_edges(con, _AMONG.format("model_edge"), _ends(list(distances), edge_types))
        nodes.sort(key=lambda node: (distances[node.type, node.id], node.type, node.id))
        return NodeList(nodes, unverified)

    def path(
        self,
        start: str,
        goal: str,
        *,
        start_type: str | None = None,
        goal_type: str | None = None,
        edge_types: Sequence[str] | None = None,
        max_depth: int = MAX_PATH,
        direction: Direction = "both",
        include_model_derived: bool = False,
    ) -> Subgraph | None:
        """Return a shortest way between two nodes, with its nodes and edges in order, or None.

        Of several shortest ways that of controlled edges is preferred at each step from the goal, then that over the
        first node by type and id. `Subgraph.unverified` says which of its edges nobody checked.

        Args:
            start: id of the node to start from.
            goal: id of the node to arrive at.
            start_type: which of the nodes of that id; any of them when None.
            goal_type: likewise.
            edge_types: only edges of these types.
            max_depth: most edges the way may have.
            direction: `out` follows edges, `in` goes against them, `both` does either.
            include_model_derived: also edges that a model asserted.
        """
        with self.connect() as con:
            models = self._with_models(con, include_model_derived)
            seeds = _seeds(con, (start,), start_type, models)
            distances = self._reach(con, seeds, max_depth, direction, edge_types, models)
            goals = [key for key in _seeds(con, (goal,), goal_type, models) if key in distances]
            if not goals:
                return None
            here = min(goals, key=lambda key: (distances[key], key))
            keys, edges = [here], []
            while distances[here]:
                ways = _AROUND[direction]
                given = {
                    "kind": here[0],
                    "node": here[1],
                    "edge_types": None if edge_types is None else list(edge_types),
                }
                found = _edges(con, ways.format("graph_edge"), given)
                if models:
                    found += _model_edges(con, ways.format("model_edge"), given)
                nearer = distances[here] - 1
                steps = [
                    (is_unverified(edge), far, _edge_order(edge), edge)
                    for edge in found
                    for far in [_other_end(edge, here)]
                    if distances.get(far) == nearer
                ]
                _, here, _, edge = min(steps, key=lambda step: step[:3])
                keys.append(here)
                edges.append(edge)
            by_key = {(node.type, node.id): node for node in _nodes_of(con, keys, models)}
        return Subgraph(tuple(by_key[key] for key in reversed(keys)), tuple(reversed(edges)))

    def subgraph(
        self,
        seeds: Sequence[str],
        *,
        node_type: str | None = None,
        depth: int = 1,
        edge_types: Sequence[str] | None = None,
        include_model_derived: bool = False,
    ) -> Subgraph:
        """Return the nodes at most `depth` edges away from some nodes, in either direction, and the edges among them.

        Raises:
            ValueError: if `depth` is negative.
        """
        with self.connect() as con:
            models = self._with_models(con, include_model_derived)
            found = self._reach(con, _seeds(con, seeds, node_type, models), depth, "both", edge_types, models)
            return _induced(con, list(found), edge_types, models)

    def _with_models(self, con: duckdb.DuckDBPyConnection, asked: bool) -> bool:
        # A database of older code has no such tables.
        return asked and existing_tables(con).issuperset(MODEL_TABLES)

    def _reach(
        self,
        con: duckdb.DuckDBPyConnection,
        seeds: Sequence[Key],
        depth: int,
        direction: Direction,
        edge_types: Sequence[str] | None,
        models: bool,
    ) -> dict[Key, int]:
        _check(depth, direction)
        token = graph_token(con, models)
        known = self._adjacency.get(models)
        if known is None or known[0] != token:
            known = self._adjacency[models] = token, Adjacency(con, models)
        return known[1].reach(con, seeds, depth, direction, edge_types)

    def _warm(self, con: duckdb.DuckDBPyConnection) -> Adjacency | None:
        known = self._adjacency.get(False)
        return known[1] if known is not None and known[0] == graph_token(con) else None

    def _number(self, query: str) -> int:
        with self.connect() as con:
            return int(con.execute(query).fetchall()[0][0])


def readable_subgraph(con: duckdb.DuckDBPyConnection, max_nodes: int = 60) -> Subgraph:
    """Return the part of the graph that fits a picture: its most connected nodes and the edges among them.

    Names that a model found are left out, accepted ones too: they are words of documents. Nodes are taken by number of edges, then by type and id, so that the same graph gives the same picture. RESTRICTED
    documents are not in the graph and so not in the picture (SPEC 5.4).
    """
    rows = con.execute(
        """
        SELECT n.type, n.id FROM graph_node n LEFT JOIN (
            SELECT type, id, count(*) AS degree FROM (
                SELECT src_type AS type, src AS id FROM graph_edge
                UNION ALL SELECT dst_type, dst FROM graph_edge
            ) GROUP BY type, id
        ) d USING (type, id)
        WHERE n.type <> 'model_entity'
        ORDER BY coalesce(degree, 0) DESC, n.type, n.id LIMIT $limit
        """,
        {"limit": max_nodes},
    ).fetchall()
    return _induced(con, [(str(kind), str(node)) for kind, node in rows], None)


def _preference(kind: str) -> tuple[int, str]:
    if kind in _PREFERENCE:
        return _PREFERENCE.index(kind), ""
    return (len(_PREFERENCE) + (kind == DOC)), kind


def _node_order(node: GraphNode) -> tuple[str, str]:
    return node.type, node.id


def _edge_order(edge: GraphEdge) -> tuple[str, ...]:
    return edge.src, edge.dst, edge.type, edge.src_type, edge.dst_type, edge.metadata.get(EDGE_META_VERIFIED, "")


def _other_end(edge: GraphEdge, node: Key) -> Key:
    return (edge.dst_type, edge.dst) if (edge.src_type, edge.src) == node else (edge.src_type, edge.src)


def _marked(nodes: Sequence[GraphNode], sure: Collection[Key]) -> list[GraphNode]:
    """Put both markers on nodes that are not among those found without a model."""
    return [
        node if (node.type, node.id) in sure else replace(node, metadata={**node.metadata, **_MARKERS})
        for node in nodes
    ]


def _evidence_order(evidence: Evidence) -> tuple[object, ...]:
    return (
        natural_key(evidence.source_doc_id),
        natural_key(evidence.source_locator),
        natural_key(evidence.chunk_id),
        evidence.version,
        evidence.kind,
    )


def _nodes(con: duckdb.DuckDBPyConnection, source: str, parameters: dict[str, str | None]) -> list[GraphNode]:
    rows = con.execute(f"SELECT {', '.join(_NODE)} {source} ORDER BY type, id", parameters).fetchall()
    return [_node(*row) for row in rows]


def _node(kind: str, node_id: str, label: str, sensitivity: str, source_doc_id: str, source_locator: str) -> GraphNode:
    return GraphNode(
        node_id,
        kind,
        label,
        {"source_doc_id": source_doc_id, "source_locator": source_locator, "sensitivity": sensitivity},
    )


def _model_nodes(con: duckdb.DuckDBPyConnection, source: str, parameters: dict[str, str | None]) -> list[GraphNode]:
    """Return nodes that only a model names; `documents` in their metadata says in how many, by name alone."""
    rows = con.execute(f"SELECT {', '.join(_NODE)}, documents {source} ORDER BY type, id", parameters).fetchall()
    found = []
    for *columns, documents in rows:
        node = _node(*columns)
        found.append(replace(node, metadata={**node.metadata, **_MARKERS, "documents": str(documents)}))
    return found


def _nodes_of(con: duckdb.DuckDBPyConnection, keys: Sequence[Key], models: bool = False) -> list[GraphNode]:
    if not keys:
        return []
    given = {"types": [kind for kind, _ in keys], "ids": [node for _, node in keys]}
    chosen = "SEMI JOIN (SELECT unnest($types) AS type, unnest($ids) AS id) USING (type, id)"
    rows = con.execute(f"SELECT {', '.join(_NODE)} FROM graph_node {chosen} ORDER BY type, id", given).fetchall()
    found = [_node(*row) for row in rows]
    if models:
        found += _model_nodes(con, f"FROM model_node {chosen}", given)  # pyright: ignore[reportArgumentType]
        found.sort(key=_node_order)
    return found


def _seeds(con: duckdb.DuckDBPyConnection, ids: Sequence[str], kind: str | None, models: bool) -> list[Key]:
    wanted = "id IN (SELECT unnest($ids)) AND ($type IS NULL OR type = $type)"
    asserted = f" UNION SELECT type, id FROM model_node WHERE {wanted}" if models else ""
    rows = con.execute(
        f"SELECT type, id FROM graph_node WHERE {wanted}{asserted} ORDER BY type, id",
        {"ids": list(ids), "type": kind},
    ).fetchall()
    return [(str(found_kind), str(node)) for found_kind, node in rows]


def _check(depth: int, direction: str) -> None:
    if depth < 0:
        raise SettingError("the depth of a traversal is a number of edges, 0 or more")
    if direction not in get_args(Direction):
        raise SettingError(f"direction is 'out', 'in' or 'both', not {direction!r}")


_MARKERS = {EDGE_META_DERIVED: PROVENANCE_MODEL_DERIVED, EDGE_META_VERIFIED: PROVENANCE_UNVERIFIED}

_CHOSEN_EDGES = (
    f"SEMI JOIN (SELECT {', '.join(f'unnest(${name}_s) AS {name}' for name in _EDGE)}) USING ({', '.join(_EDGE)})"
)
_CONTROLLED_EVIDENCE = (
    f"SELECT {', '.join(_EDGE)}, kind, source_doc_id, source_locator, chunk_id, version"
    f" FROM graph_evidence {_CHOSEN_EDGES}"
)
_MODEL_EVIDENCE = (
    f"SELECT {', '.join(_EDGE)}, 'model', source_doc_id, source_locator, chunk_id, version, model, answer_id, ''"
    f" FROM model_evidence {_CHOSEN_EDGES}"
)
_MODEL_EVIDENCE_AND_TIME = (
    f"SELECT {', '.join(_EDGE)}, 'model', source_doc_id, source_locator, chunk_id, version, e.model, answer_id,"
    " coalesce(strftime(asked_at, '%Y-%m-%dT%H:%M:%SZ'), '')"
    f" FROM (FROM model_evidence {_CHOSEN_EDGES}) e LEFT JOIN model_answer a USING (answer_id)"
)

_HOPS = {
    "out": """
        SELECT dst_type, dst FROM {}
        WHERE src_type = $kind AND src = $node AND ($edge_type IS NULL OR type = $edge_type)
    """,
    "in": """
        SELECT src_type, src FROM {}
        WHERE dst_type = $kind AND dst = $node AND ($edge_type IS NULL OR type = $edge_type)
    """,
}

# The edges by which one arrives at a node when walking in a direction.
_TYPED = "($edge_types IS NULL OR list_contains($edge_types, type))"
_AROUND = {
    "out": f"(SELECT * FROM {{}} WHERE dst_type = $kind AND dst = $node AND {_TYPED})",
    "in": f"(SELECT * FROM {{}} WHERE src_type = $kind AND src = $node AND {_TYPED})",
    "both": f"(SELECT * FROM {{}} WHERE ((dst_type = $kind AND dst = $node) OR (src_type = $kind AND src = $node))"
    f" AND {_TYPED})",
}

_SEEN = "(SELECT unnest($types) AS {0}_type, unnest($ids) AS {0}) {0}_end USING ({0}_type, {0})"
_AMONG = f"(SELECT * FROM {{}} SEMI JOIN {_SEEN.format('src')} SEMI JOIN {_SEEN.format('dst')} WHERE {_TYPED})"
_INCIDENT = f"""(
    SELECT * FROM model_edge WHERE {_TYPED} AND (
        ($direction <> 'in' AND (src_type, src) IN (SELECT (unnest($types), unnest($ids))))
        OR ($direction <> 'out' AND (dst_type, dst) IN (SELECT (unnest($types), unnest($ids))))
    )
)"""


def _ends(keys: Sequence[Key], edge_types: Sequence[str] | None, direction: str | None = None) -> dict[str, object]:
    given: dict[str, object] = {
        "types": [kind for kind, _ in keys],
        "ids": [node for _, node in keys],
        "edge_types": None if edge_types is None else list(edge_types),
    }
    return given if direction is None else {**given, "direction": direction}


def _induced(
    con: duckdb.DuckDBPyConnection, keys: Sequence[Key], edge_types: Sequence[str] | None, models: bool = False
) -> Subgraph:
    if not keys:
        return Subgraph()
    edges = _edges(con, _AMONG.format("graph_edge"), _ends(keys, edge_types))
    if models:
        edges += _model_edges(con, _AMONG.format("model_edge"), _ends(keys, edge_types))
        edges.sort(key=_edge_order)
    return Subgraph(tuple(_nodes_of(con, keys, models)), tuple(edges))


def _edges(con: duckdb.DuckDBPyConnection, chosen: str, parameters: dict[str, object]) -> list[GraphEdge]:
    """Return controlled edges with the first of their evidence: a decision, else the first place in natural order."""
    columns = ", ".join(f"e.{column}" for column in _EDGE)
    rows = con.execute(
        f"SELECT {columns}, kind <> 'review', source_doc_id, source_locator FROM {chosen} e JOIN graph_evidence v"
        f" USING ({', '.join(_EDGE)}) ORDER BY e.src, e.dst, e.type, e.src_type, e.dst_type",
        parameters,
    ).fetchall()
    edges: list[GraphEdge] = []
    first: dict[tuple[str, ...], tuple[bool, str, str]] = {}
    for *key, late, doc_id, locator in rows:
        edge = tuple(key)
        place = (late, doc_id, locator)
        if edge not in first or _place(place) < _place(first[edge]):
            first[edge] = place
    for (src_type, src, dst_type, dst, kind), (_, doc_id, locator) in first.items():
        metadata = {"source_doc_id": doc_id, "source_locator": locator}
        edges.append(GraphEdge(src, dst, kind, metadata, src_type, dst_type))
    return edges


def _model_edges(con: duckdb.DuckDBPyConnection, chosen: str, parameters: dict[str, object]) -> list[GraphEdge]:
    """Return edges that a model asserted, as marked in their table, with the first evidence in natural order."""
    columns = ", ".join(f"e.{column}" for column in _EDGE)
    rows = con.execute(
        f"SELECT {columns}, derived, verified, source_doc_id, source_locator, chunk_id, model, answer_id"
        f" FROM {chosen} e JOIN model_evidence v USING ({', '.join(_EDGE)})"
        " ORDER BY e.src, e.dst, e.type, e.src_type, e.dst_type",
        parameters,
    ).fetchall()
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in rows:
        key, rest = tuple(row[:5]), tuple(row[5:])
        if key not in first or _model_place(rest) < _model_place(first[key]):
            first[key] = rest
    edges: list[GraphEdge] = []
    for (src_type, src, dst_type, dst, kind), (
        derived,
        verified,
        doc_id,
        locator,
        chunk,
        model,
        answer,
    ) in first.items():
        metadata = {
            "source_doc_id": doc_id,
            "source_locator": locator,
            EDGE_META_DERIVED: derived,
            EDGE_META_VERIFIED: verified,
            EDGE_META_CHUNK: chunk,
            EDGE_META_MODEL: model,
            EDGE_META_ANSWER: answer,
        }
        edges.append(GraphEdge(src, dst, kind, metadata, src_type, dst_type))
    return edges


def _place(place: tuple[bool, str, str]) -> tuple[object, ...]:
    return place[0], natural_key(place[1]), natural_key(place[2])


def _model_place(row: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(map(natural_key, row[2:]))
