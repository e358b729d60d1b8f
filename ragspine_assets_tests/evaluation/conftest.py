"""A store whose documents each answer one golden question, and what it publishes."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ragspine_assets.evaluation.gate import QualityGate
from ragspine_assets.evaluation.questions import read_questions
from ragspine_assets.serving import PublishReport, Snapshot, publish_snapshot
from ragspine_assets_tests.conftest import Pipeline

THINGS = (
    "anchor", "bakery", "canal", "dome", "engine", "ferry", "garden", "hangar", "island", "jetty", "kiln", "ladder",
    "mill", "nave", "orchard", "pump", "quarry", "rudder", "sluice", "turbine",
)  # fmt: skip


@dataclass
class Library:
    """The pipeline, its snapshots and its golden set."""

    pipeline: Pipeline
    root: Path
    questions: Path
    names: list[str] = field(default_factory=lambda: [f"{thing}.txt" for thing in THINGS])

    def gate(self, floor: float = 0.0) -> QualityGate:
        return QualityGate(read_questions(self.questions), floor)

    def publish(self, floor: float = 0.0, **options: object) -> PublishReport:
        self.pipeline.run()
        return publish_snapshot(self.pipeline.store, self.root, gate=self.gate(floor), **options)  # pyright: ignore[reportArgumentType]

    def open(self) -> Snapshot:
        return Snapshot.open(self.root)


def passage_of(thing: str) -> str:
    return f"The {thing} was built by master number {len(thing)} and {THINGS.index(thing)} helpers."


@pytest.fixture
def library(pipeline: Pipeline, tmp_path: Path) -> Library:
    pipeline.write(
        {f"{thing}.txt": f"About the house.\n\n{passage_of(thing)}\n\nIt still stands.\n" for thing in THINGS}
    )
    rows = [f"who built the {thing}\ten\t{thing}.txt\t{passage_of(thing)}" for thing in THINGS]
    questions = tmp_path / "questions.tsv"
    questions.write_text("\n".join(["question\tlanguage\tdoc_id\tphrase", *rows]) + "\n")
    return Library(pipeline, tmp_path / "snapshots", questions)
