"""What the relation graph costs: build, no-op, one changed document, reads (SPEC 5.2, 5.8).

Run with `python benchmarks/graph.py [--edges 100000 1000000] [--documents 10000]`. Prints medians, beside networkx on
the same edges.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import networkx as nx
import pyarrow as pa

from ragspine_assets.graph import DuckDBGraphStore, Vocabulary, rebuild_graph
from ragspine_assets.graph.adjacency import write_revision
from ragspine_assets.policy.profile import DimensionSpec, DomainProfile
from ragspine_assets.store.schema import TABLES

_TEXT = (
    "the plant in the north delivered fewer parts than planned while demand for pumps and valves rose again this year "
    "and the board asked each unit to review its suppliers before the winter so that stocks cover eight weeks of work"
)


def profile_of(entities: int) -> DomainProfile:
    """Return a profile with some entities of two names each, and some external ones."""
    synonyms = {f"unit {number} works": f"U{number}" for number in range(entities)}
    synonyms |= {f"works{number}": f"U{number}" for number in range(entities)}
    return DomainProfile(
        home_company_name="Holding",
        home_entity_code="H",
        home_entity_synonyms={"holding": "H", **synonyms},
        external_entities={f"rival {number}": f"Rival {number}" for number in range(30)},
        dimensions=(DimensionSpec(name="metric", label="Metric", synonyms={"revenue": "REV"}),),
    )


def chunk_rows(documents: int, chunks_each: int, entities: int) -> pa.Table:
    """Return rows of `narrative_chunk`: about 480 characters each, every third naming an entity."""
    draw = random.Random(7)
    pieces = [" ".join(draw.choices(_TEXT.split(), k=84))[:470] for _ in range(997)]
    columns: dict[str, list[object]] = {name: [] for name in ("chunk_id", "doc_id", "seq", "text", "source_locator")}
    for document in range(documents):
        doc_id = f"reports/{document % 100:02d}/report-{document:06d}.txt"
        for seq in range(chunks_each):
            text = pieces[draw.randrange(len(pieces))]
            if seq % 3 == 0:
                text = f"{text[:200]} Works{draw.randrange(entities)} {text[200:]}"
            columns["chunk_id"].append(f"{doc_id}#c{seq}")
            columns["doc_id"].append(doc_id)
            columns["seq"].append(seq)
            columns["text"].append(text)
            columns["source_locator"].append(f"{doc_id}#para{seq + 1}")
    size = len(columns["seq"])
    columns |= {"entity": ["H"] * size, "sensitivity": ["INTERNAL"] * size}
    return pa.table(columns)


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create every table of the store."""
    for table, columns in TABLES.items():
        con.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    """Return the median duration of some runs."""
    taken = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def bench_build(folder: Path, documents: int) -> None:
    """Print what a first build, a no-op and one changed document cost."""
    profile = profile_of(50)
    rows = chunk_rows(documents, 5, 50)
    with duckdb.connect(str(folder / "build.duckdb"), config={"threads": 2}) as con:
        create_tables(con)
        con.register("incoming", rows)
        con.execute("INSERT INTO narrative_chunk BY NAME SELECT * FROM incoming")
        con.unregister("incoming")
        vocabulary = Vocabulary(profile)
        texts = rows.column("text").to_pylist()
        characters = sum(map(len, texts))
        scan = seconds(lambda: [vocabulary.entities_in(text) for text in texts])
        print(f"{documents:,} documents, {len(texts):,} chunks, {characters / 1e6:.0f} million characters")
        print(f"  search for names        {scan:8.3f} s  ({characters / 1e6 / scan:.0f} MB/s)")
        print(f"  first build             {seconds(lambda: rebuild_graph(con, profile)):8.3f} s")
        print(f"  nothing changed         {seconds(lambda: rebuild_graph(con, profile), 3):8.3f} s")
        con.execute("UPDATE narrative_chunk SET active = FALSE WHERE doc_id LIKE '%000007.txt'")
        print(f"  one document withdrawn  {seconds(lambda: rebuild_graph(con, profile)):8.3f} s")


def fill_graph(con: duckdb.DuckDBPyConnection, edges: int) -> str:
    """Write a graph of documents that mention entities, ten edges to a document; return the id of a hub."""
    documents, entities = edges // 10, max(edges // 100, 10)
    con.execute(
        "INSERT INTO graph_node BY NAME SELECT 'doc' AS type, 'd' || i AS id, 'd' || i AS source_doc_id,"
        " 'd' || i || '#doc' AS source_locator FROM range($n) t(i)",
        {"n": documents},
    )
    con.execute(
        "INSERT INTO graph_node BY NAME SELECT 'entity' AS type, 'E' || i AS id, 'company_profile' AS source_doc_id,"
        " 'company_profile#home_entity/E' || i AS source_locator FROM range($n) t(i)",
        {"n": entities},
    )
    con.execute(
        "INSERT INTO graph_edge BY NAME SELECT 'doc' AS src_type, 'd' || (i // 10) AS src, 'entity' AS dst_type,"
        " 'E' || (hash(i) % $entities) AS dst, 'mentions' AS type FROM range($n) t(i)",
        {"n": edges, "entities": entities},
    )
    con.execute(
        "INSERT INTO graph_evidence BY NAME SELECT *, 'metadata' AS kind, src AS source_doc_id, src || '#para1' AS"
        " source_locator FROM graph_edge"
    )
    write_revision(con, "benchmark")
    return "d5"


def bench_reads(edges: int) -> None:
    """Print what reads cost, beside networkx on the same edges."""
    with duckdb.connect(config={"threads": 2}) as con:
        create_tables(con)
        start = fill_graph(con, edges)
        graph = DuckDBGraphStore(con)
        near = seconds(lambda: graph.neighbors(start), 15)
        hub = con.execute("SELECT dst FROM graph_edge GROUP BY dst ORDER BY count(*) DESC, dst LIMIT 1").fetchall()[0][
            0
        ]
        into = seconds(lambda: graph.neighbors(hub, direction="in"), 15)
        first = seconds(lambda: graph.traverse(start, direction="both", max_depth=1))
        warm = seconds(lambda: graph.neighbors(start), 15)
        warm_into = seconds(lambda: graph.neighbors(hub, direction="in"), 15)
        walks = {}
        for depth in (2, 3):
            walk = partial(graph.traverse, start, direction="both", max_depth=depth)
            walks[depth] = len(walk()), seconds(walk, 7)
        others = networkx_seconds(con, start, hub)
        print(f"{edges:,} edges (ms)                     here   networkx, in memory and already made")
        print(f"  neighbours, first read          {near * 1e3:8.1f}   {others['near'] * 1e3:8.3f}")
        print(f"  incoming neighbours, first read {into * 1e3:8.1f}   {others['into'] * 1e3:8.3f}")
        print(f"  first traversal, makes arrays   {first * 1e3:8.1f}   {others['make'] * 1e3:8.1f} (to make the graph)")
        print(f"  neighbours, later               {warm * 1e3:8.1f}")
        print(f"  incoming neighbours, later      {warm_into * 1e3:8.1f}")
        for depth, (reached, taken) in walks.items():
            print(f"  {depth} hops, {reached:,} nodes            {taken * 1e3:8.1f}   {others[str(depth)] * 1e3:8.1f}")
        if edges == 100_000:
            print("  (rag-spine 0.13 in memory: 489 ms for a traverse of 1,000 nodes)")


def networkx_seconds(con: duckdb.DuckDBPyConnection, start: str, hub: str) -> dict[str, float]:
    """Return what the same reads cost in networkx, once its graph is made."""
    rows = con.execute("SELECT src, dst FROM graph_edge").fetchall()
    begun = time.perf_counter()
    graph = nx.DiGraph()
    graph.add_edges_from((f"doc {src}", f"entity {dst}") for src, dst in rows)
    taken = {"make": time.perf_counter() - begun}
    both = graph.to_undirected(as_view=True)
    taken["near"] = seconds(lambda: list(graph.successors(f"doc {start}")), 15)
    taken["into"] = seconds(lambda: list(graph.predecessors(f"entity {hub}")), 15)
    for depth in (2, 3):
        walk = partial(nx.single_source_shortest_path_length, both, f"doc {start}", cutoff=depth)
        taken[str(depth)] = seconds(walk, 7)
    return taken


def main() -> None:
    """Run what was asked for."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--documents", type=int, default=10_000)
    arguments.add_argument("--edges", type=int, nargs="*", default=[100_000, 1_000_000])
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench_build(Path(folder), given.documents)
    for edges in given.edges:
        bench_reads(edges)


if __name__ == "__main__":
    main()
