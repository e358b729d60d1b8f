"""Reading the graph: nodes, neighbours, traversals, evidence (SPEC 5.8).

What is returned is read from the tables; only the way of a traversal is found on arrays, which are made again when the
graph has changed. Orders are fixed: nodes by type and id, edges by ends and type, evidence by natural order of place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

import duckdb

from ragspine_assets.graph.adjacency import Adjacency, Direction, Key, graph_token
from ragspine_assets.graph.model import DOC, ENTITY, EXTERNAL_ENTITY, METRIC, Evidence, GraphEdge, GraphNode, Subgraph
from ragspine_assets.graph.staging import existing_tables
from ragspine_assets.store.schema import TABLES

DEFAULT_DEPTH = 3
"""How far `traverse` and `subgraph` may go unless told otherwise, in edges (SPEC 5.8)."""

GRAPH_TABLES = ("graph_node", "graph_edge", "graph_evidence")
"""The controlled tables."""
MODEL_TABLES = ("model_node", "model_edge", "model_evidence", "extraction_record")
"""The tables of what models assert, and the record of what extractors made."""


class ConnectionSource(Protocol):
    """Something that opens a connection for a while; `store.ChunkStore` does."""

    def connect(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Return a context manager that yields a connection."""
        ...


@runtime_checkable
class GraphStore(Protocol):
    """The reads every graph store offers (SPEC 5.8). Controlled edges only, unless asked."""

    def get_node(self, node_id: str, node_type: str | None = None) -> GraphNode | None:
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
_PARTS = re.compile("([0-9]+)")


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that puts `para2` before `para10`."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in _PARTS.split(text) if part)


class DuckDBGraphStore:
    """The relation graph in DuckDB (SPEC 5.8).

    Args:
        source: an open connection, which stays open and the caller's; a `ChunkStore` or anything else with `connect()`,
            opened for each read; the path of a database; None for a database in memory of its own.
    """

    def __init__(self, source: GraphSource | None = None) -> None:
        self._adjacency: Adjacency | None = None
        self._token: tuple[object, ...] = ()
        if source is None:
            self._source: ConnectionSource | duckdb.DuckDBPyConnection | Path = duckdb.connect(":memory:")
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
            opened = duckdb.connect(str(self._source))
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
        """Return the number of nodes."""
        return self._number("SELECT count(*) FROM graph_node")

    def count_edges(self) -> int:
        """Return the number of controlled edges."""
        return self._number("SELECT count(*) FROM graph_edge")

    def nodes(self) -> list[GraphNode]:
        """Return all nodes, by type and id."""
        with self.connect() as con:
            return _nodes(con, "FROM graph_node", {})

    def edges(self) -> list[GraphEdge]:
        """Return all controlled edges, by ends and type; `metadata` are those of the first evidence."""
        with self.connect() as con:
            return _edges(con, "graph_edge", {})

    def evidence(self, edge: GraphEdge) -> list[Evidence]:
        """Return all evidence of an edge, in natural order of document and place (SPEC 5.3).

        Where the edge leaves the types of its ends open, the evidence of all edges between such names is returned.
        """
        conditions = [f"{column} = ${column}" for column in ("src", "dst", "type")]
        parameters = {"src": edge.src, "dst": edge.dst, "type": edge.type}
        for column, value in (("src_type", edge.src_type), ("dst_type", edge.dst_type)):
            if value:
                conditions.append(f"{column} = ${column}")
                parameters[column] = value
        with self.connect() as con:
            rows = con.execute(
                "SELECT kind, source_doc_id, source_locator, chunk_id, version FROM graph_evidence"
                f" WHERE {' AND '.join(conditions)}",
                parameters,
            ).fetchall()
        return sorted((Evidence(*row) for row in rows), key=_evidence_order)

    def get_node(self, node_id: str, node_type: str | None = None) -> GraphNode | None:
        """Return one node, or None.

        Where nodes of several kinds share the id and no type is given, entities come first, then external entities,
        metrics, derived dimensions by name, and documents last.
        """
        with self.connect() as con:
            found = _nodes(
                con,
                "FROM graph_node WHERE id = $id AND ($type IS NULL OR type = $type)",
                {"id": node_id, "type": node_type},
            )
        return min(found, key=lambda node: _preference(node.type), default=None)

    def neighbors(
        self,
        node_id: str,
        *,
        node_type: str | None = None,
        edge_type: str | None = None,
        direction: Direction = "out",
        include_model_derived: bool = False,  # noqa: ARG002
    ) -> list[GraphNode]:
        """Return the nodes one edge away, by type and id.

        Args:
            node_id: where to start.
            node_type: which of the nodes of that id; all of them when None.
            edge_type: only edges of this type.
            direction: `out` follows edges, `in` goes against them, `both` does either.
            include_model_derived: also edges that a model asserted.
        """
        _check(1, direction)
        hops = [_HOPS[way] for way in ("out", "in") if direction in {way, "both"}]
        with self.connect() as con:
            met: set[Key] = set()
            seeds = _seeds(con, (node_id,), node_type)
            for kind, node in seeds:
                for hop in hops:
                    met.update(con.execute(hop, {"kind": kind, "node": node, "edge_type": edge_type}).fetchall())
            return _nodes_of(con, sorted(met.difference(seeds)))

    def traverse(
        self,
        start: str,
        *,
        node_type: str | None = None,
        edge_types: Sequence[str] | None = None,
        max_depth: int = DEFAULT_DEPTH,
        direction: Direction = "out",
        include_model_derived: bool = False,  # noqa: ARG002
    ) -> list[GraphNode]:
        """Return the nodes that can be reached in at most `max_depth` edges, nearest first, then by type and id.

        The start itself is not among them. Arguments are those of `neighbors`.

        Raises:
            ValueError: if `max_depth` is negative or `direction` is none of the three.
        """
        with self.connect() as con:
            seeds = _seeds(con, (start,), node_type)
            distances = self._reach(con, seeds, max_depth, direction, edge_types)
            reached = [key for key, distance in distances.items() if distance]
            nodes = _nodes_of(con, reached)
        return sorted(nodes, key=lambda node: (distances[node.type, node.id], node.type, node.id))

    def subgraph(
        self,
        seeds: Sequence[str],
        *,
        depth: int = 1,
        edge_types: Sequence[str] | None = None,
        include_model_derived: bool = False,  # noqa: ARG002
    ) -> Subgraph:
        """Return the nodes at most `depth` edges away from some nodes, in either direction, and the edges among them.

        Raises:
            ValueError: if `depth` is negative.
        """
        with self.connect() as con:
            found = self._reach(con, _seeds(con, seeds, None), depth, "both", edge_types)
            return _induced(con, list(found), edge_types)

    def _reach(
        self,
        con: duckdb.DuckDBPyConnection,
        seeds: Sequence[Key],
        depth: int,
        direction: Direction,
        edge_types: Sequence[str] | None,
    ) -> dict[Key, int]:
        _check(depth, direction)
        token = graph_token(con)
        if self._adjacency is None or self._token != token:
            self._adjacency, self._token = Adjacency(con), token
        return self._adjacency.reach(con, seeds, depth, direction, edge_types)

    def _number(self, query: str) -> int:
        with self.connect() as con:
            return int(con.execute(query).fetchall()[0][0])


def readable_subgraph(con: duckdb.DuckDBPyConnection, max_nodes: int = 60) -> Subgraph:
    """Return the part of the graph that fits a picture: its most connected nodes and the edges among them.

    Nodes are taken by number of edges, then by type and id, so that the same graph gives the same picture. RESTRICTED
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
        ORDER BY coalesce(degree, 0) DESC, n.type, n.id LIMIT $limit
        """,
        {"limit": max_nodes},
    ).fetchall()
    return _induced(con, [(str(kind), str(node)) for kind, node in rows], None)


def _preference(kind: str) -> tuple[int, str]:
    if kind in _PREFERENCE:
        return _PREFERENCE.index(kind), ""
    return (len(_PREFERENCE) + (kind == DOC)), kind


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


def _nodes_of(con: duckdb.DuckDBPyConnection, keys: Sequence[Key]) -> list[GraphNode]:
    if not keys:
        return []
    rows = con.execute(
        f"SELECT {', '.join(_NODE)} FROM graph_node SEMI JOIN (SELECT unnest($types) AS type, unnest($ids) AS id)"
        " USING (type, id) ORDER BY type, id",
        {"types": [kind for kind, _ in keys], "ids": [node for _, node in keys]},
    ).fetchall()
    return [_node(*row) for row in rows]


def _seeds(con: duckdb.DuckDBPyConnection, ids: Sequence[str], kind: str | None) -> list[Key]:
    rows = con.execute(
        "SELECT type, id FROM graph_node WHERE id IN (SELECT unnest($ids)) AND ($type IS NULL OR type = $type)"
        " ORDER BY type, id",
        {"ids": list(ids), "type": kind},
    ).fetchall()
    return [(str(found_kind), str(node)) for found_kind, node in rows]


def _check(depth: int, direction: str) -> None:
    if depth < 0:
        raise ValueError("the depth of a traversal is a number of edges, 0 or more")
    if direction not in get_args(Direction):
        raise ValueError(f"direction is 'out', 'in' or 'both', not {direction!r}")


_HOPS = {
    "out": """
        SELECT dst_type, dst FROM graph_edge
        WHERE src_type = $kind AND src = $node AND ($edge_type IS NULL OR type = $edge_type)
    """,
    "in": """
        SELECT src_type, src FROM graph_edge
        WHERE dst_type = $kind AND dst = $node AND ($edge_type IS NULL OR type = $edge_type)
    """,
}


def _induced(con: duckdb.DuckDBPyConnection, keys: Sequence[Key], edge_types: Sequence[str] | None) -> Subgraph:
    if not keys:
        return Subgraph()
    edges = _edges(
        con,
        "(SELECT * FROM graph_edge"
        " SEMI JOIN (SELECT unnest($types) AS src_type, unnest($ids) AS src) s USING (src_type, src)"
        " SEMI JOIN (SELECT unnest($types) AS dst_type, unnest($ids) AS dst) d USING (dst_type, dst)"
        " WHERE $edge_types IS NULL OR list_contains($edge_types, type))",
        {
            "types": [kind for kind, _ in keys],
            "ids": [node for _, node in keys],
            "edge_types": None if edge_types is None else list(edge_types),
        },
    )
    return Subgraph(tuple(_nodes_of(con, keys)), tuple(edges))


def _edges(con: duckdb.DuckDBPyConnection, chosen: str, parameters: dict[str, object]) -> list[GraphEdge]:
    """Return edges with the first of their evidence in natural order."""
    columns = ", ".join(f"e.{column}" for column in _EDGE)
    rows = con.execute(
        f"SELECT {columns}, source_doc_id, source_locator FROM {chosen} e JOIN graph_evidence v"
        f" USING ({', '.join(_EDGE)}) ORDER BY e.src, e.dst, e.type, e.src_type, e.dst_type",
        parameters,
    ).fetchall()
    edges: list[GraphEdge] = []
    first: dict[tuple[str, ...], tuple[str, str]] = {}
    for *key, doc_id, locator in rows:
        edge = tuple(key)
        place = (doc_id, locator)
        if edge not in first or _place(place) < _place(first[edge]):
            first[edge] = place
    for (src_type, src, dst_type, dst, kind), (doc_id, locator) in first.items():
        metadata = {"source_doc_id": doc_id, "source_locator": locator}
        edges.append(GraphEdge(src, dst, kind, metadata, src_type, dst_type))
    return edges


def _place(place: tuple[str, str]) -> tuple[tuple[tuple[int, int | str], ...], ...]:
    return natural_key(place[0]), natural_key(place[1])
