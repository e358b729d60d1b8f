"""The demo corpus: what a person asks is found first (data/questions.tsv)."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from ragspine_assets.documents.metadata import load_metadata_table
from ragspine_assets.graph import update_graph
from ragspine_assets.pipeline import activate_staged, stage_chunks, sync_documents
from ragspine_assets.policy import load_profile
from ragspine_assets.serving import Snapshot, publish_snapshot
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.demo_secrets import RESTRICTED, RESTRICTED_ONLY_CODES, SECRETS

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    profile = load_profile(DATA / "profile.toml")
    with ChunkStore(folder / "store.duckdb") as store:
        sync_documents(
            store,
            DATA / "raw",
            metadata=load_metadata_table(DATA / "raw" / "metadata.csv"),
            policy=profile.sensitivity,
            workers=0,
        )
        stage_chunks(store)
        activate_staged(store)
        update_graph(store, profile)
        publish_snapshot(store, folder / "snapshots", profile=profile)
    return folder / "snapshots"


def test_most_questions_in_each_language_are_answered_by_the_first_passage(demo: Path) -> None:
    retriever = Snapshot.open(demo).retriever()
    asked, first, among = Counter(), Counter(), Counter()
    with (DATA / "questions.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            hits = retriever.retrieve(row["question"], top_k=3)
            right = [hit["doc_id"] == row["doc_id"] and row["phrase"] in str(hit["text"]) for hit in hits]
            asked[row["language"]] += 1
            first[row["language"]] += right[:1] == [True]
            among[row["language"]] += any(right)
    assert set(asked) == {"en", "it", "zh", "ja"}
    assert all(first[language] >= asked[language] / 2 for language in asked), (first, asked)
    assert sum(first.values()) >= 23
    assert sum(among.values()) >= 27


def test_no_byte_of_the_snapshot_holds_a_secret_of_the_demo(demo: Path) -> None:
    held = b"".join(path.read_bytes() for path in sorted(demo.rglob("*")) if path.is_file())
    secrets = [*(phrase for _, phrase in SECRETS), *RESTRICTED, *RESTRICTED_ONLY_CODES]
    assert [secret for secret in secrets if secret.encode() in held] == []
