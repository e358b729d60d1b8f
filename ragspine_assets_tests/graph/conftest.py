"""A small profile, a store with chunks and documents, and a search for traces in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from ragspine_assets.graph import Fact
from ragspine_assets.policy import DimensionSpec, DomainProfile
from ragspine_assets.store.schema import TABLES
from ragspine_assets_tests.conftest import Pipeline
from ragspine_assets_tests.graph.extraction_world import Model, World, leads

GRAPH_TABLES = ("graph_node", "graph_edge", "graph_evidence", "graph_scan", "graph_mention", "fact")


@dataclass(frozen=True)
class Piece:
    """A chunk as another library might have it: without label, number or version."""

    doc_id: str
    entity: str = ""
    text: str = ""
    source_locator: str = ""


@dataclass(frozen=True)
class Labelled(Piece):
    sensitivity: str = "INTERNAL"
    chunk_id: str = ""


def fact(
    document: str = "annual.csv", entity: str = "NORD", metric: str = "REV", place: str = "row2", value: float = 1.5
) -> Fact:
    return Fact(metric, entity, "FY", "2024", value, "EUR_M", document, f"{document}#{place}")


@pytest.fixture
def profile() -> DomainProfile:
    return DomainProfile(
        home_company_name="Holding",
        home_entity_code="HOLD",
        home_entity_synonyms={
            "holding": "HOLD",
            "nordwerk": "NORD",
            "nordwerk plant": "NORD",
            "北方": "NORD",
            "sudwerk": "SUD",
        },
        home_entity_labels={"NORD": "Nordwerk"},
        external_entities={"nordwerk rivals": "Rivals Ltd", "北方竞品": "Beifang", "acmo": "Acmo"},
        dimensions=(
            DimensionSpec(name="metric", label="Metric", synonyms={"revenue": "REV"}, labels={"REV": "Revenue"}),
            DimensionSpec(
                name="region", label="Region", derived_from="entity", derivation={"NORD": "NORTH", "SUD": "SOUTH"}
            ),
            DimensionSpec(name="zone", label="Zone", derived_from="region", derivation={"NORTH": "COLD"}),
        ),
    )


class Store:
    """Every table of the store in a real file, and the few writes that tests need."""

    def __init__(self, path: Path) -> None:
        self.con = duckdb.connect(str(path))
        for table, columns in TABLES.items():
            self.con.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")

    def add(
        self,
        doc_id: str,
        *texts: str,
        entity: str = "",
        label: str = "INTERNAL",
        version: int = 1,
        status: str = "ingested",
    ) -> None:
        self.con.execute("UPDATE narrative_chunk SET active = FALSE WHERE doc_id = ?", [doc_id])
        self.con.execute("DELETE FROM document WHERE doc_id = ?", [doc_id])
        self.con.execute("INSERT INTO document (doc_id, status, sensitivity) VALUES (?, ?, ?)", [doc_id, status, label])
        for seq, text in enumerate(texts):
            self.con.execute(
                "INSERT INTO narrative_chunk (chunk_id, doc_id, seq, text, source_locator, entity, sensitivity, version)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [f"{doc_id}#c{seq}", doc_id, seq, text, f"{doc_id}#para{seq + 1}", entity, label, version],
            )

    def relabel(self, doc_id: str, label: str) -> None:
        self.con.execute("UPDATE narrative_chunk SET sensitivity = ? WHERE doc_id = ?", [label, doc_id])
        self.con.execute("UPDATE document SET sensitivity = ? WHERE doc_id = ?", [label, doc_id])

    def remove(self, doc_id: str) -> None:
        self.con.execute("UPDATE narrative_chunk SET active = FALSE WHERE doc_id = ?", [doc_id])
        self.con.execute("UPDATE document SET status = 'removed' WHERE doc_id = ?", [doc_id])

    def dump(self) -> dict[str, list[tuple[object, ...]]]:
        return {table: self.con.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in GRAPH_TABLES}

    def edges(self) -> set[tuple[str, str, str]]:
        return set(self.con.execute("SELECT src, type, dst FROM graph_edge").fetchall())

    def nodes(self) -> set[tuple[str, str]]:
        return set(self.con.execute("SELECT type, id FROM graph_node").fetchall())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "store.duckdb")
    yield store
    store.con.close()


@pytest.fixture
def traces() -> Callable[[duckdb.DuckDBPyConnection, str], list[str]]:
    """Return a search: which columns of which graph tables hold a word, whatever they are for."""

    def search(con: duckdb.DuckDBPyConnection, word: str) -> list[str]:
        found = []
        for table in GRAPH_TABLES:
            for row in con.execute(f"SELECT * FROM {table}").fetchall():
                if any(word in str(cell) for cell in row):
                    found.append(table)
        return found

    return search


@pytest.fixture
def world(pipeline: Pipeline) -> World:
    """Two open documents and a secret one, and a model that finds a relation in each."""
    answers = {
        "Boltworks": leads(("Ann", "Boltworks")),
        "Nordwerk": leads(("Cy", "Nordwerk")),
        "Zanzibarquux": leads(("Zanzibarquux", "Ann")),
    }
    world = World(pipeline, Model(answers))
    world.put("a.txt", "Ann leads Boltworks since the spring.", "CONFIDENTIAL")
    world.put("b.txt", "Cy leads the Nordwerk plant.")
    world.put("s.txt", "Zanzibarquux leads Ann and everybody.", "RESTRICTED")
    return world
