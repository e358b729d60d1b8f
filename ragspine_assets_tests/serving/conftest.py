"""A pipeline with open and RESTRICTED documents, and what it publishes."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragspine_assets.policy import DomainProfile
from ragspine_assets.serving import PublishReport, Snapshot, publish_snapshot
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conftest import Pipeline

SECRET = "Zanzibarquux will acquire the northern harbour for ninety million before anybody hears of it."

PROFILE = DomainProfile(home_company_name="Harbour", home_entity_code="HARB", home_entity_synonyms={"harbour": "HARB"})

FILES = {
    "harbour.txt": "The harbour opens at six.\nShips wait outside until the pilot comes aboard.\n" * 6,
    "cranes.md": "# Cranes\n\nEvery crane is greased on Monday.\n\n# Winter\n\nIn winter the cranes are heated.\n",
    "board/plan.txt": SECRET,
    "numbers.txt": "Tariffs rise by two percent.\n",
    "metadata.csv": (
        "doc_id,title,entity,topic,sensitivity\n"
        "harbour.txt,Harbour rules,HARB,rules,PUBLIC\n"
        "cranes.md,,HARB,upkeep,INTERNAL\n"
        "numbers.txt,Tariffs,,prices,CONFIDENTIAL\n"
        "board/plan.txt,Quuxtitle of the plan,ZANZ,plans,RESTRICTED\n"
    ),
}


@dataclass
class Port:
    """The pipeline and its folder of snapshots."""

    pipeline: Pipeline
    root: Path

    def publish(self, **options: object) -> PublishReport:
        return publish_snapshot(self.pipeline.store, self.root, **options)  # pyright: ignore[reportArgumentType]

    def run(self, **options: object) -> PublishReport:
        self.pipeline.run()
        return self.publish(**options)

    def open(self) -> Snapshot:
        return Snapshot.open(self.root)

    def label(self, doc_id: str, label: str) -> None:
        table = self.pipeline.root / "metadata.csv"
        kept = [line for line in table.read_text().splitlines() if not line.startswith(f"{doc_id},")]
        table.write_text("\n".join([*kept, f"{doc_id},,,,{label}"]) + "\n")


@pytest.fixture
def port(pipeline: Pipeline, tmp_path: Path) -> Port:
    pipeline.profile = PROFILE
    pipeline.write(FILES)
    return Port(pipeline, tmp_path / "snapshots")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all of it has run once."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "source").mkdir()
    made = Port(Pipeline(folder / "source", ChunkStore(folder / "state" / "store.duckdb")), folder / "snapshots")
    made.pipeline.profile = PROFILE
    made.pipeline.write(FILES)
    made.run()
    return folder


@pytest.fixture
def published(template: Path, tmp_path: Path) -> Port:
    for name in ("source", "state", "snapshots"):
        shutil.copytree(template / name, tmp_path / name, dirs_exist_ok=True)
    store = ChunkStore(tmp_path / "state" / "store.duckdb")
    with store.connect() as connection:
        root = os.path.realpath(tmp_path / "source")
        connection.execute("UPDATE store_setting SET value = ? WHERE name = 'source_root'", [root])
    return Port(Pipeline(tmp_path / "source", store, profile=PROFILE), tmp_path / "snapshots")
