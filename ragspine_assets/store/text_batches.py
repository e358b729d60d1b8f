"""Reading texts of many documents a group at a time (SPEC 1.9: work and memory in proportion).

To sort or join all texts at once takes room for all of them, and a store that is larger than DuckDB may use is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb
import pyarrow as pa

from ragspine_assets.store.arrow_tables import table_of
from ragspine_assets.store.database import longest_together, registered

CHARACTERS = 4_000_000
"""About how many code points a group of documents has."""

WITHIN = "BETWEEN $first AND $last"
"""What a query says of ``doc_id``: the first and the last document of the group, in order of code points."""

TEXTS = f"""
    WITH _text AS MATERIALIZED (
        SELECT doc_id, text, page_starts FROM document_text SEMI JOIN _group USING (doc_id) WHERE doc_id {WITHIN}
    )
"""
"""The texts of a group as a table to join with: without it, DuckDB may hold every text for a join that wants a few."""

_GROUP = pa.schema([("doc_id", pa.string())])
_READINGS = 8
"""How often a vector of long texts is read at most, about: all of its values are read for one of them."""


def in_groups(
    connection: duckdb.DuckDBPyConnection,
    sizes: Iterable[tuple[str, int]],
    query: str,
    *,
    limit: int = CHARACTERS,
) -> Iterator[pa.Table]:
    """Run a query for one group of documents after the other; between two, the connection is free.

    Args:
        connection: the open store.
        sizes: each document and its size, in the order in which they are wanted.
        query: names the table ``_group``, whose column ``doc_id`` has the documents of the group, and `WITHIN`, so that
            what lies elsewhere is not read; it orders its rows itself.
        limit: how large a group may be. A document that is larger is a group of its own. Where documents are so long
            that reading one of them means to read much more, groups are larger in proportion.
    """
    sizes = list(sizes)
    longest = longest_together(size for _, size in sizes)
    limit = max(limit, longest * limit // (_READINGS * CHARACTERS))
    group: list[str] = []
    together = 0
    for doc_id, size in sizes:
        if group and together + size > limit:
            yield read_group(connection, group, query)
            group, together = [], 0
        group.append(doc_id)
        together += size
    if group:
        yield read_group(connection, group, query)


def read_group(connection: duckdb.DuckDBPyConnection, group: list[str], query: str) -> pa.Table:
    """Run a query for one group of documents, see `in_groups`."""
    with registered(connection, _group=table_of({"doc_id": group}, _GROUP)):
        return connection.sql(query, params={"first": min(group), "last": max(group)}).to_arrow_table()


def text_sizes(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    """Return every document that has a text, and about how many code points it has, in order of ids."""
    return connection.execute(
        "SELECT t.doc_id, coalesce(d.characters, 0) FROM document_text t LEFT JOIN document d USING (doc_id) "
        "ORDER BY t.doc_id"
    ).fetchall()
