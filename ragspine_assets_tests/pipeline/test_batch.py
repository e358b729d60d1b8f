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


def labels(store: ChunkStore) -> dict[str, str]:
    return {chunk.doc_id: chunk.sensitivity for chunk in store.iter_chunks()}


def test_the_table_of_the_folder_is_read_and_what_is_given_comes_before_it(folder: Path, store: ChunkStore) -> None:
    (folder / "metadata.csv").write_text("doc_id,sensitivity\nA.md,RESTRICTED\nsub/*,RESTRICTED\nnone.md,RESTRICTED\n")
    report = ingest_narrative(folder, store, meta_by_doc={"sub/*.md": {"topic": "LAW", "sensitivity": "CONFIDENTIAL"}})
    assert labels(store) == {"a.md": "RESTRICTED", "sub/a.md": "CONFIDENTIAL"}
    assert {chunk.topic for chunk in store.iter_chunks(doc_id="sub/a.md")} == {"LAW"}
    assert sum("metadata.csv, line 2" in problem for problem in report.problems) == 1
    assert sum("line 4: a row matches no document" in problem for problem in report.problems) == 1


def test_a_label_stays_until_a_row_of_its_own_lowers_it(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder / "a.md", store, meta_by_doc={"a.md": {"sensitivity": "RESTRICTED"}})
    report = ingest_narrative(folder / "a.md", store)
    assert labels(store)["a.md"] == "RESTRICTED"
    assert [problem for problem in report.problems if "keeps the label" in problem]
    (folder / "a.md").write_text("")
    ingest_narrative(folder / "a.md", store)
    (folder / "a.md").write_text("New words.")
    ingest_narrative(folder / "a.md", store)
    assert labels(store)["a.md"] == "RESTRICTED"
    ingest_narrative(folder / "a.md", store, meta_by_doc={"a.md": {"sensitivity": "PUBLIC"}})
    assert labels(store)["a.md"] == "PUBLIC"


def test_values_that_are_no_texts_fail_their_documents_only_and_lower_nothing(folder: Path, store: ChunkStore) -> None:
    ingest_narrative(folder, store)
    wrong = {"a.md": {"title": 5, "sensitivity": None}, "sub/*": ["PUBLIC"]}
    report = ingest_narrative(folder, store, meta_by_doc=wrong)  # pyright: ignore[reportArgumentType]
    assert [document.status for document in report.documents] == ["failed", "failed", "no_text", "failed"]
    assert "title is a int" in report.documents[0].reason
    assert labels(store) == {"a.md": "RESTRICTED", "sub/a.md": "CONFIDENTIAL"}


def test_problems_with_labels_are_reported(folder: Path, store: ChunkStore) -> None:
    report = ingest_narrative(folder, store, meta_by_doc={"a.md": {"sensitivity": "secret-ish"}})
    assert labels(store)["a.md"] == "RESTRICTED"
    assert any(problem.startswith("doc:") and "not in the lattice" in problem for problem in report.problems)
