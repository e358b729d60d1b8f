"""The graph's edges as arrays, for traversals that would be slow as joins (SPEC 5.8).

Only numbers of nodes are kept between reads; what a reader gets of a node is always read from the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ragspine_assets.graph.temp_tables import existing_tables

Direction = Literal["out", "in", "both"]
Key = tuple[str, str]
Numbers = npt.NDArray[np.integer]

REVISION = "graph_revision"
"""Setting of a store that changes with its graph, so that a reader sees at once whether its arrays still hold."""
MODEL_REVISION = "model_revision"
"""The same for what models assert."""


@dataclass(frozen=True)
class _Half:
    """One direction: the edges of node `n` are `starts[n]` to `starts[n + 1]`."""

    starts: Numbers
    far: Numbers
    kinds: Numbers

    @classmethod
    def of(cls, near: Numbers, far: Numbers, kinds: Numbers, size: int) -> _Half:
        order = np.argsort(near, kind="stable")
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(near, minlength=size), out=starts[1:])
        return cls(starts, far[order], kinds[order])

    def step(self, frontier: Numbers, kinds: Numbers | None) -> Numbers:
        starts, sizes = self.starts[frontier], self.starts[frontier + 1] - self.starts[frontier]
        offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes) + np.arange(sizes.sum())
        far = self.far[offsets]
        return far if kinds is None else far[np.isin(self.kinds[offsets], kinds)]


_CONTROLLED = "(SELECT type, id FROM graph_node)", "graph_edge"
_WITH_MODELS = (
    "(SELECT type, id FROM graph_node UNION SELECT type, id FROM model_node)",
    "(SELECT src_type, src, dst_type, dst, type FROM graph_edge UNION FROM model_edge SELECT src_type, src, dst_type, dst, type)",
)


_NUMBERED = """
    WITH numbered AS (
        SELECT type, id, row_number() OVER (ORDER BY hash(type, id), type, id) - 1 AS number FROM {nodes}
    )
    SELECT s.number AS src, d.number AS dst, e.type FROM {edges} e
    JOIN numbered s ON s.type = e.src_type AND s.id = e.src
    JOIN numbered d ON d.type = e.dst_type AND d.id = e.dst
"""


class Adjacency:
    """The edges of one graph at one time.

    Args:
        con: a connection to the graph's tables.
        include_model_derived: also edges that a model asserted.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, include_model_derived: bool = False) -> None:
        all_nodes, all_edges = _WITH_MODELS if include_model_derived else _CONTROLLED
        # Numbers stand in the order of hashes, and edges are read as hashes: joins of strings cost ten times as much.
        nodes = con.sql(f"SELECT type, id, hash(type, id) AS h FROM {all_nodes} ORDER BY h, type, id").to_arrow_table()
        self._types = nodes.column("type").combine_chunks().dictionary_encode()
        self._ids = nodes.column("id").combine_chunks()
        self._hashes = nodes.column("h").to_numpy()
        self._size = nodes.num_rows
        if np.any(self._hashes[1:] == self._hashes[:-1]):
            # Two nodes of one hash, which hardly ever happens: then names have to be joined after all.
            query = _NUMBERED.format(nodes=all_nodes, edges=all_edges)
        else:
            query = f"SELECT hash(src_type, src) AS src, hash(dst_type, dst) AS dst, type FROM {all_edges}"
        edges = con.sql(query).to_arrow_table()
        kinds = edges.column("type").combine_chunks().dictionary_encode()
        self._kinds = {kind: number for number, kind in enumerate(kinds.dictionary.to_pylist())}
        src, dst = edges.column("src").to_numpy(), edges.column("dst").to_numpy()
        if src.dtype == np.uint64:
            src, dst = np.searchsorted(self._hashes, src), np.searchsorted(self._hashes, dst)
        self._ends = src.astype(np.int32), dst.astype(np.int32)
        self._numbers_of_kinds = kinds.indices.to_numpy()

    @cached_property
    def _out(self) -> _Half:
        src, dst = self._ends
        return _Half.of(src, dst, self._numbers_of_kinds, self._size)

    @cached_property
    def _in(self) -> _Half:
        src, dst = self._ends
        return _Half.of(dst, src, self._numbers_of_kinds, self._size)

    def reach(
        self,
        con: duckdb.DuckDBPyConnection,
        seeds: Sequence[Key],
        depth: int,
        direction: Direction,
        edge_types: Sequence[str] | None,
    ) -> dict[Key, int]:
        """Return how many edges away each node is that lies within `depth` edges of a seed, by type and id."""
        kinds = None
        if edge_types is not None:
            kinds = np.array([self._kinds[kind] for kind in set(edge_types) & self._kinds.keys()], np.int64)
        distances = np.full(self._size, -1, np.int64)
        frontier = self._numbers(con, seeds)
        distances[frontier] = 0
        for distance in range(1, depth + 1):
            halves = [self._out] if direction != "in" else []
            halves += [self._in] if direction != "out" else []
            met = np.unique(np.concatenate([half.step(frontier, kinds) for half in halves]))
            frontier = met[distances[met] < 0]
            if not len(frontier):
                break
            distances[frontier] = distance
        reached = np.flatnonzero(distances >= 0)
        at = pa.array(reached)
        keys = zip(self._types.take(at).to_pylist(), self._ids.take(at).to_pylist(), strict=True)
        return dict(zip(keys, distances[reached].tolist(), strict=True))

    def _numbers(self, con: duckdb.DuckDBPyConnection, keys: Sequence[Key]) -> Numbers:
        rows = con.execute(
            "SELECT type, id, hash(type, id) FROM (SELECT unnest($types) AS type, unnest($ids) AS id)",
            {"types": [kind for kind, _ in keys], "ids": [node for _, node in keys]},
        ).fetchall()
        found = []
        for kind, node, hashed in rows:
            first = int(np.searchsorted(self._hashes, np.uint64(hashed)))
            while first < self._size and int(self._hashes[first]) == hashed:
                if self._ids[first].as_py() == node and self._types[first].as_py() == kind:
                    found.append(first)
                first += 1
        return np.array(sorted(set(found)), np.int64)


def graph_token(con: duckdb.DuckDBPyConnection, include_model_derived: bool = False) -> tuple[object, ...]:
    """Return a value that is different whenever the graph's nodes or edges are.

    A store keeps a revision of its graph, which with the numbers of rows is enough; elsewhere the rows are hashed.
    """
    controlled = _token(con, REVISION, "graph_node", "graph_edge")
    return (
        (*controlled, *_token(con, MODEL_REVISION, "model_node", "model_edge")) if include_model_derived else controlled
    )


def _token(con: duckdb.DuckDBPyConnection, name: str, nodes: str, edges: str) -> tuple[object, ...]:
    revision = []
    if "store_setting" in existing_tables(con):
        revision = con.execute("SELECT value FROM store_setting WHERE name = $name", {"name": name}).fetchall()
    if revision:
        counts = con.execute(f"SELECT (SELECT count(*) FROM {nodes}), (SELECT count(*) FROM {edges})").fetchall()
        return (*revision[0], *counts[0])
    hashed = con.execute(
        f"SELECT (SELECT (count(*), sum(hash(type, id))) FROM {nodes}),"
        f" (SELECT (count(*), sum(hash(src, dst, type, src_type, dst_type))) FROM {edges})"
    ).fetchall()
    return hashed[0]


def write_revision(con: duckdb.DuckDBPyConnection, digest: str | None, name: str = REVISION) -> None:
    """Note the digest of the graph as it now is; None says that it changed and nobody has computed it yet."""
    if "store_setting" not in existing_tables(con):
        return
    con.execute("DELETE FROM store_setting WHERE name = $name", {"name": name})
    if digest is not None:
        con.execute("INSERT INTO store_setting (name, value) VALUES ($name, $value)", {"name": name, "value": digest})
