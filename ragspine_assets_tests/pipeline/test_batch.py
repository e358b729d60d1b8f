"""The batch writer of the library (SPEC 4.1)."""

from pathlib import Path

import pytest

from ragspine_assets.chunking import make_chunker
from ragspine_assets.policy import SensitivityPolicy
from ragspine_assets.store import ChunkStore, ingest_narrative

MARKDOWN = "# One\n\nFirst words. More words.\n\n# Two\n\nOther words."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a.md").write_text(MARKDOWN)
    (tmp_path / "in" / "sub" / "a.md").write_text("---\nsensitivity: confidential\ntopic: FIN\n---\nOther text.")
    (tmp_path / "in" / "empty.txt").write_text(" \n")
    (tmp_path / "in" / "bad.pdf").write_bytes(b"%PDF-1.4 nothing")
    return tmp_path / "in"


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    return ChunkStore(tmp_path / "store.duckdb")


def test_a_folder_is_ingested_and_every_input_is_accounted_for(folder: Path, store: ChunkStore) -> None:
    report = ingest_narrative(folder, store)
    assert [(d.doc_id, d.status) for d in report.documents] == [
        ("a.md", "ingested"), ("bad.pdf", "failed"), ("empty.txt", "no_text"), ("sub/a.md", "ingested"),
    ]  # fmt: skip
    assert report.documents[1].reason
    assert {(c.doc_id, c.topic, c.sensitivity) for c in store.iter_chunks()} == {
        ("a.md", "", "INTERNAL"),
        ("sub/a.md", "FIN", "CONFIDENTIAL"),
    }


def test_a_second_time_writes_nothing(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store)
    report = ingest_narrative(folder, store)
    assert report.count("unchanged") == 2
    assert {c.version for c in store.iter_chunks(include_inactive=True)} == {1}


def test_windows_of_a_chunker_land_in_the_store(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store, chunker=make_chunker("parent_child"))
    chunks = list(store.iter_chunks(doc_id="a.md"))
    assert [c.heading for c in chunks] == ["# One", "# Two"]
    assert all(c.text in c.window_text and c.parent_locator.startswith("a.md#para") for c in chunks)


def test_without_a_chunker_the_window_fields_stay_empty(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store)
    assert {(c.window_text, c.parent_locator, c.parent_id) for c in store.iter_chunks()} == {("", "", "")}


def test_changing_the_chunker_versions_exactly_the_documents_whose_rows_it_changes(
    folder: Path, store: ChunkStore
) -> None:
    ingest_narrative(folder, store)
    report = ingest_narrative(folder, store, chunker=make_chunker("default"))
    assert report.count("ingested") == 0
    report = ingest_narrative(folder, store, chunker=make_chunker("layout"))
    assert report.count("ingested") == 2


def test_files_of_one_folder_are_named_by_their_names(folder: Path, store: ChunkStore) -> None:
    report = ingest_narrative([folder / "a.md", folder / "empty.txt"], store)
    assert [d.doc_id for d in report.documents] == ["a.md", "empty.txt"]
    assert ingest_narrative(folder / "a.md", store).count("unchanged") == 1


def test_metadata_given_by_hand_wins_and_unknown_names_are_refused(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store, meta_by_doc={"a.md": {"title": "T", "sensitivity": "PUBLIC"}})
    assert {(c.title, c.sensitivity) for c in store.iter_chunks(doc_id="a.md")} == {("T", "PUBLIC")}
    with pytest.raises(ValueError, match="no such metadata: colour"):
        ingest_narrative(folder, store, meta_by_doc={"a.md": {"colour": "red"}})


def test_the_policy_labels_what_nobody_labelled(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store, policy=SensitivityPolicy(restricted_keywords=["other words"]))
    assert {c.sensitivity for c in store.iter_chunks(doc_id="a.md")} == {"RESTRICTED"}


def test_a_dry_run_tells_and_writes_nothing(folder: Path, store: ChunkStore) -> None:
    assert ingest_narrative(folder, store, dry_run=True).count("ingested") == 2
    assert store.count(include_inactive=True) == 0


def test_a_file_that_became_blank_is_withdrawn(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store)
    (folder / "a.md").write_text("\n")
    assert ingest_narrative(folder / "a.md", store).count("no_text") == 1
    assert [c.doc_id for c in store.iter_chunks()] == ["sub/a.md"]
