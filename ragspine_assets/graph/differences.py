"""Making a stored table equal to a wanted one by touching only the rows that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb


def same(left: str, right: str, columns: Sequence[str]) -> str:
    """Return the condition that two relations agree in some columns."""
    return " AND ".join(f"{left}.{column} = {right}.{column}" for column in columns)


@dataclass(frozen=True)
class Changes:
    """What writing changed, by type of the rows; `changed` ones kept their key."""

    written: bool = False
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)


def write_differences(con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]) -> Changes:
    """Make a stored table equal to its `gx_wanted_` twin, touching only rows that differ."""
    wanted, added, removed = (f"gx_{what}_{table}" for what in ("wanted", "added", "removed"))
    listed = ", ".join(columns)
    con.execute(f"CREATE TEMP TABLE {added} AS SELECT {listed} FROM {wanted} EXCEPT SELECT {listed} FROM {table}")
    con.execute(f"CREATE TEMP TABLE {removed} AS SELECT {listed} FROM {table} EXCEPT SELECT {listed} FROM {wanted}")
    sizes = con.execute(
        f"SELECT (SELECT count(*) FROM {added}), (SELECT count(*) FROM {removed}), (SELECT count(*) FROM {table}),"
        f" (SELECT count(*) FROM {wanted})"
    ).fetchall()[0]
    many_added, many_removed, before, after = map(int, sizes)
    if before + many_added - many_removed != after:
        # A stored row stands there twice, which no comparison of sets can see.
        con.execute(f"DELETE FROM {table}")
        con.execute(f"INSERT INTO {table} BY NAME SELECT {listed} FROM {wanted} ORDER BY ALL")
        return Changes(written=True)
    if not many_added and not many_removed:
        return Changes()
    if many_removed:
        con.execute(f"DELETE FROM {table} USING {removed} r WHERE {same('r', table, columns)}")
    if many_added:
        con.execute(f"INSERT INTO {table} BY NAME SELECT {listed} FROM {added} ORDER BY ALL")
    both = f"(SELECT a.type FROM {added} a JOIN {removed} r USING (type, id))" if table == "graph_node" else ""
    changed = count_by_type(con, both) if both else {}
    return Changes(
        True, _less(count_by_type(con, added), changed), _less(count_by_type(con, removed), changed), changed
    )


def _less(counts: Mapping[str, int], changed: Mapping[str, int]) -> dict[str, int]:
    return {kind: number - changed.get(kind, 0) for kind, number in counts.items() if number > changed.get(kind, 0)}


def count_by_type(con: duckdb.DuckDBPyConnection, relation: str) -> dict[str, int]:
    """Return how many rows of each type a relation has."""
    rows = con.execute(f"SELECT type, count(*) FROM {relation} GROUP BY type ORDER BY type").fetchall()
    return {str(kind): int(number) for kind, number in rows}
