"""What many tests need: a small source folder, and the stages over it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.metadata import MetadataTable, load_metadata_table
from ragspine_assets.graph import GraphReport, update_graph, withdraw_documents
from ragspine_assets.pipeline import activate_staged, stage_chunks, sync_documents
from ragspine_assets.pipeline.chunks import StagingReport
from ragspine_assets.pipeline.documents import DocumentsReport
from ragspine_assets.pipeline.versions import ActivationReport
from ragspine_assets.policy import DomainProfile, SensitivityPolicy
from ragspine_assets.store import ChunkStore

os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")

# Time is measured elsewhere. In CI the same examples are tried each time; on a developer's machine new ones are.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
for name in [name for name in os.environ if name.startswith("RAGSPINE_")]:
    del os.environ[name]


@dataclass
class Pipeline:
    """A source folder, a store beside it, and the stages that a run takes."""

    root: Path
    store: ChunkStore
    policy: SensitivityPolicy = SensitivityPolicy()
    profile: DomainProfile = DomainProfile()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def metadata(self) -> MetadataTable:
        path = self.root / "metadata.csv"
        return load_metadata_table(path) if path.exists() else MetadataTable()

    def intake(self, **options: object) -> DocumentsReport:
        settings: dict[str, object] = {"workers": 0, "limits": ExtractionLimits(time_limit_s=20), **options}
        return sync_documents(
            self.store, self.root, metadata=self.metadata(), policy=self.policy, withdraw=withdraw_documents, **settings
        )  # pyright: ignore[reportArgumentType]

    def run(self, **options: object) -> tuple[DocumentsReport, StagingReport, ActivationReport, GraphReport]:
        """Run every stage once, as the job does."""
        with self.store:
            return (
                self.intake(**options),
                stage_chunks(self.store),
                activate_staged(self.store),
                update_graph(self.store, self.profile),
            )

    def rows(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        with self.store.connect() as connection:
            return connection.execute(query, list(parameters)).fetchall()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    root = tmp_path / "source"
    root.mkdir()
    return Pipeline(root, ChunkStore(tmp_path / "state" / "store.duckdb"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of handed cases and corpora; tests that need it are skipped without it."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("the handed cases are not here")
    return path
