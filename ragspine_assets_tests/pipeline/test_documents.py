"""The first stage: what a source folder does to the documents of a store (SPEC 1)."""

import os
import shutil
from pathlib import Path

import pytest

from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.pipeline import MassRemovalError, activate_staged, stage_chunks
from ragspine_assets.policy import SensitivityPolicy
from ragspine_assets.store import ChunkStore, StoreError
from ragspine_assets_tests.conftest import Pipeline

TEN_PARAGRAPHS = "\n".join(f"Paragraph number {n} tells something of its own." for n in range(10))


def statuses(pipeline: Pipeline) -> dict[object, object]:
    return dict(pipeline.rows("SELECT doc_id, status FROM document ORDER BY doc_id"))


def active_versions(pipeline: Pipeline) -> dict[object, object]:
    return dict(pipeline.rows("SELECT DISTINCT doc_id, version FROM narrative_chunk WHERE active ORDER BY 1"))


def labels(pipeline: Pipeline, doc_id: str) -> set[object]:
    return {
        row[0] for row in pipeline.rows("SELECT DISTINCT sensitivity FROM narrative_chunk WHERE doc_id = ?", doc_id)
    }


def test_one_name_in_two_folders_is_two_documents_and_the_second_run_skips_both(pipeline: Pipeline) -> None:
    pipeline.write({"a/notes.txt": "Alpha", "b/notes.txt": "Beta"})
    pipeline.run()
    assert active_versions(pipeline) == {"a/notes.txt": 1, "b/notes.txt": 1}
    documents, staged, activated, _ = pipeline.run()
    assert documents.outcomes == {"unchanged": 2}
    assert staged.outcomes["new"] == staged.outcomes["changed"] == 0
    assert activated.chunks_written == 0


def test_a_changed_file_gets_one_new_version_and_the_old_one_stays_citable(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "First text.", "b.txt": "Other."})
    pipeline.run()
    pipeline.write({"a.txt": "Second text."})
    documents, _, activated, _ = pipeline.run()
    assert documents.outcomes == {"changed": 1, "unchanged": 1}
    assert activated.outcomes["changed"] == 1
    assert active_versions(pipeline) == {"a.txt": 2, "b.txt": 1}
    old = pipeline.store.resolve("a.txt@v1#c0")
    assert old is not None
    assert (old.text, old.active) == ("First text.", False)


def test_a_touched_file_is_unchanged(pipeline: Pipeline) -> None:
    pipeline.write({"x.txt": "Text"})
    pipeline.run()
    os.utime(pipeline.root / "x.txt", (1, 1))
    documents, *_ = pipeline.run()
    assert documents.outcomes == {"unchanged": 1}


def test_bytes_that_change_without_changing_the_text_write_no_version(pipeline: Pipeline) -> None:
    pipeline.write({"x.txt": "One\nTwo\n"})
    pipeline.run()
    pipeline.write({"x.txt": "One\r\nTwo\r\n"})
    _, _, activated, _ = pipeline.run()
    assert activated.chunks_written == 0
    assert active_versions(pipeline) == {"x.txt": 1}


def test_a_removed_file_is_deactivated_and_comes_back_as_a_further_version(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text", "b.txt": "Other"})
    pipeline.run()
    (pipeline.root / "a.txt").unlink()
    documents, _, activated, _ = pipeline.run()
    assert documents.outcomes["removed"] == 1
    assert activated.outcomes["removed"] == 1
    assert statuses(pipeline)["a.txt"] == "removed"
    assert active_versions(pipeline) == {"b.txt": 1}
    pipeline.write({"a.txt": "Text"})
    documents, *_ = pipeline.run()
    assert documents.outcomes["new"] == 1
    assert active_versions(pipeline) == {"a.txt": 2, "b.txt": 1}


def test_a_file_that_became_blank_has_no_text_and_no_active_version(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "old text"})
    pipeline.run()
    pipeline.write({"a.txt": "   \n"})
    pipeline.run()
    assert statuses(pipeline) == {"a.txt": "no_text"}
    assert active_versions(pipeline) == {}
    assert pipeline.rows("SELECT count(*) FROM document_text") == [(0,)]


def test_a_bad_file_keeps_its_active_version_and_never_stops_the_others(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "good", "b.txt": "before"})
    pipeline.run()
    pipeline.write({"a.txt": b"\x00\x01\x02\xff\xfe\x00bad" * 50, "b.txt": "after"})
    documents, *_ = pipeline.run()
    assert documents.outcomes == {"failed": 1, "changed": 1}
    assert statuses(pipeline)["a.txt"] == "failed"
    assert [chunk.text for chunk in pipeline.store.iter_chunks()] == ["good", "after"]
    documents, *_ = pipeline.run()
    assert documents.outcomes == {"failed": 1, "unchanged": 1}


def test_a_failed_file_is_tried_again_when_its_limit_changes(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "x" * 5000})
    documents, *_ = pipeline.run(limits=ExtractionLimits(max_bytes=1000))
    assert documents.outcomes == {"failed": 1}
    documents, *_ = pipeline.run(limits=ExtractionLimits(max_bytes=10_000))
    assert documents.outcomes == {"changed": 1}
    assert statuses(pipeline) == {"a.txt": "ingested"}


def test_mass_removal_stops_the_run_before_anything_is_deactivated(pipeline: Pipeline) -> None:
    pipeline.write({f"{n}.txt": f"Text {n}" for n in range(30)})
    pipeline.run()
    for path in pipeline.root.iterdir():
        path.unlink()
    with pytest.raises(MassRemovalError, match=r"30 of 30 .*nothing was deactivated"):
        pipeline.run()
    assert len(active_versions(pipeline)) == 30
    documents, *_ = pipeline.run(allow_mass_removal=True)
    assert documents.outcomes["removed"] == 30


def test_half_of_the_documents_may_go_without_a_question(pipeline: Pipeline) -> None:
    pipeline.write({f"{n}.txt": f"Text {n}" for n in range(30)})
    pipeline.run()
    for n in range(15):
        (pipeline.root / f"{n}.txt").unlink()
    documents, *_ = pipeline.run()
    assert documents.outcomes["removed"] == 15


def test_files_that_all_became_blank_stop_the_run_too(pipeline: Pipeline) -> None:
    pipeline.write({f"{n}.txt": f"Text {n}" for n in range(30)})
    pipeline.run()
    pipeline.write({f"{n}.txt": " \n" for n in range(30)})
    with pytest.raises(MassRemovalError):
        pipeline.run()
    assert len(active_versions(pipeline)) == 30


def test_ten_documents_may_go_at_once(pipeline: Pipeline) -> None:
    pipeline.write({f"{n}.txt": f"Text {n}" for n in range(10)})
    pipeline.run()
    for path in pipeline.root.iterdir():
        path.unlink()
    documents, *_ = pipeline.run()
    assert documents.outcomes["removed"] == 10


def test_a_missing_source_folder_is_an_error_and_removes_nothing(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text"})
    pipeline.run()
    shutil.rmtree(pipeline.root)
    with pytest.raises(Exception, match="source"):
        pipeline.run()
    assert active_versions(pipeline) == {"a.txt": 1}


def test_a_store_belongs_to_one_source(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write({"a.txt": "Text"})
    pipeline.run()
    other = Pipeline(tmp_path / "other", pipeline.store)
    other.root.mkdir()
    with pytest.raises(StoreError, match=r"belongs to the source .*STORE=data/stores/other-"):
        other.run()


def test_a_source_moved_together_with_its_store_is_still_its_source(tmp_path: Path) -> None:
    first = Pipeline(tmp_path / "here" / "raw", ChunkStore(tmp_path / "here" / "store.duckdb"))
    first.root.mkdir(parents=True)
    first.write({"a.txt": "Text"})
    first.run()
    (tmp_path / "here").rename(tmp_path / "there")
    moved = Pipeline(tmp_path / "there" / "raw", ChunkStore(tmp_path / "there" / "store.duckdb"))
    documents, *_ = moved.run()
    assert documents.outcomes == {"unchanged": 1}


# -- labels ------------------------------------------------------------------------------------------------------------


def test_a_raised_row_relabels_every_version_without_writing_one(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "one"})
    pipeline.run()
    pipeline.write({"a.txt": "two"})
    pipeline.run()
    pipeline.write({"metadata.csv": "doc_id,sensitivity\na.txt,RESTRICTED\n"})
    documents, _, activated, _ = pipeline.run()
    assert documents.raised == 1
    assert labels(pipeline, "a.txt") == {"RESTRICTED"}
    assert activated.chunks_written == 0
    assert active_versions(pipeline) == {"a.txt": 2}
    assert pipeline.rows("SELECT doc_id, old_label, new_label, reason FROM label_history") == [
        ("a.txt", "INTERNAL", "RESTRICTED", "row of metadata.csv")
    ]


def test_an_exact_row_lowers_a_label_in_a_new_version_and_leaves_the_old_one(pipeline: Pipeline) -> None:
    pipeline.policy = SensitivityPolicy(restricted_keywords=["secret"])
    pipeline.write({"a.txt": "A secret text."})
    pipeline.run()
    assert labels(pipeline, "a.txt") == {"RESTRICTED"}
    pipeline.write({"metadata.csv": "doc_id,sensitivity\na.txt,INTERNAL\n"})
    documents, *_ = pipeline.run()
    assert documents.lowered == 1
    assert pipeline.rows("SELECT version, sensitivity, active FROM narrative_chunk ORDER BY 1") == [
        (1, "RESTRICTED", False),
        (2, "INTERNAL", True),
    ]


def test_raised_labels_are_kept_when_the_breaker_stops_the_run(pipeline: Pipeline) -> None:
    pipeline.write({f"{n}.txt": f"Text {n}" for n in range(30)})
    pipeline.run()
    for n in range(1, 30):
        (pipeline.root / f"{n}.txt").unlink()
    pipeline.write({"metadata.csv": "doc_id,sensitivity\n0.txt,RESTRICTED\n7.txt,CONFIDENTIAL\n"})
    with pytest.raises(MassRemovalError):
        pipeline.run()
    assert labels(pipeline, "0.txt") == {"RESTRICTED"}
    assert labels(pipeline, "7.txt") == {"CONFIDENTIAL"}


def test_a_label_raised_on_a_file_that_then_fails_is_kept(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "good"})
    pipeline.run()
    pipeline.write(
        {"a.txt": b"\x00\x01\x02\xff\xfe\x00bad" * 50, "metadata.csv": "doc_id,sensitivity\na.txt,RESTRICTED\n"}
    )
    pipeline.run()
    assert statuses(pipeline) == {"a.txt": "failed"}
    assert labels(pipeline, "a.txt") == {"RESTRICTED"}


def test_a_new_keyword_raises_documents_whose_files_did_not_change(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Project Heron goes ahead.", "b.txt": "Nothing."})
    pipeline.run()
    pipeline.policy = SensitivityPolicy(restricted_keywords=["project  heron"])
    documents, *_ = pipeline.run()
    assert documents.raised == 1
    assert (labels(pipeline, "a.txt"), labels(pipeline, "b.txt")) == ({"RESTRICTED"}, {"INTERNAL"})


def test_front_matter_may_raise_a_label_in_a_new_version_and_the_old_one_follows(pipeline: Pipeline) -> None:
    pipeline.write({"a.md": "# T\n\nold words"})
    pipeline.run()
    pipeline.write({"a.md": "---\nsensitivity: RESTRICTED\n---\n# T\n\nnew words"})
    pipeline.run()
    assert labels(pipeline, "a.md") == {"RESTRICTED"}
    assert active_versions(pipeline) == {"a.md": 2}


def test_front_matter_that_cannot_be_parsed_makes_the_document_restricted_and_is_reported(pipeline: Pipeline) -> None:
    pipeline.write({"a.md": "---\ntitle: [unclosed\nsensitivity: PUBLIC\n---\n# Plan\n\nbody"})
    documents, *_ = pipeline.run()
    assert labels(pipeline, "a.md") == {"RESTRICTED"}
    assert len(documents.problems) == 1
    assert documents.problems[0].startswith("doc:")
    assert "unclosed" not in documents.problems[0]
    documents, *_ = pipeline.run()
    assert labels(pipeline, "a.md") == {"RESTRICTED"}


def test_front_matter_is_metadata_and_not_text(pipeline: Pipeline) -> None:
    pipeline.write({"a.md": "---\ntitle: Plan\n# c\n---\n# Real\nbody"})
    pipeline.run()
    (chunk,) = pipeline.store.iter_chunks()
    assert (chunk.title, chunk.text) == ("Plan", "# Real\nbody")


def test_a_file_that_was_never_read_counts_as_restricted_until_a_row_labels_it(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": b"\x00\x01\x02\xff\xfe\x00bad" * 50})
    documents, *_ = pipeline.run()
    assert documents.changes[0].reference.startswith("doc:")
    assert pipeline.rows("SELECT sensitivity FROM document") == [("RESTRICTED",)]
    pipeline.write({"metadata.csv": "doc_id,sensitivity\na.txt,PUBLIC\n"})
    pipeline.run()
    assert pipeline.rows("SELECT sensitivity, label_reason FROM document") == [("PUBLIC", "row of metadata.csv")]


def test_a_label_outside_the_lattice_is_restricted_and_reported(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text", "metadata.csv": "doc_id,sensitivity\na.txt,SECRET\n"})
    documents, *_ = pipeline.run()
    assert labels(pipeline, "a.txt") == {"RESTRICTED"}
    assert any("not in the lattice" in problem for problem in documents.problems)


def test_a_row_that_matches_no_file_is_reported_by_its_line(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text", "metadata.csv": "doc_id,title\na.txt,T\nmissing.txt,U\n"})
    documents, *_ = pipeline.run()
    assert documents.problems == ["metadata.csv, line 3: the row matches no file of the source"]


def test_changed_metadata_alone_is_a_new_version_that_says_why(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text"})
    pipeline.run()
    pipeline.write({"metadata.csv": "doc_id,title,topic\na.txt,A title,FIN\n"})
    documents, _, activated, _ = pipeline.run()
    assert [(c.what, c.why) for c in documents.changes] == [("changed", "metadata: title, topic")]
    assert activated.outcomes["changed"] == 1
    assert [chunk.topic for chunk in pipeline.store.iter_chunks()] == ["FIN"]


def test_restricted_documents_are_named_by_a_keyed_hash(pipeline: Pipeline) -> None:
    pipeline.write({"hidden-plan.txt": "Text", "metadata.csv": "doc_id,sensitivity\nhidden-plan.txt,RESTRICTED\n"})
    documents, *_ = pipeline.run()
    (change,) = documents.changes
    assert change.reference.startswith("doc:")
    assert len(change.reference) == len("doc:") + 12


# -- any run finishes what another began ---------------------------------------------------------------------------------


def test_stages_that_did_not_run_are_made_up_for_by_the_next_run(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "one", "b.txt": "one"})
    pipeline.run()
    pipeline.write({"a.txt": "two"})
    pipeline.intake()
    pipeline.intake()
    (pipeline.root / "b.txt").unlink()
    pipeline.intake()
    stage_chunks(pipeline.store)
    documents, staged, activated, _ = pipeline.run()
    assert documents.outcomes == {"unchanged": 1}
    assert staged.outcomes["changed"] == 0
    assert activated.outcomes == {"changed": 1, "removed": 1, "unchanged": 0}
    assert [chunk.citation for chunk in pipeline.store.iter_chunks()] == ["a.txt@v2#c0"]


def test_a_document_of_many_chunks_is_written_once(pipeline: Pipeline) -> None:
    pipeline.write({"big.txt": "\n".join(f"{n} " + "word " * 80 for n in range(201))})
    pipeline.run()
    _, _, activated, _ = pipeline.run()
    assert activated.chunks_written == 0
    assert pipeline.store.count(include_inactive=True) == 201


def test_new_sizes_cut_again_exactly_the_documents_whose_chunks_change(pipeline: Pipeline) -> None:
    pipeline.write({"long.txt": TEN_PARAGRAPHS, "short.txt": "Short."})
    pipeline.run()
    stage_chunks(pipeline.store, max_chars=100, overlap_chars=0)
    activated = activate_staged(pipeline.store)
    assert activated.outcomes["changed"] == 1
    assert active_versions(pipeline) == {"long.txt": 2, "short.txt": 1}


def test_chunks_of_the_api_survive_a_run_over_the_folder(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "Text"})
    pipeline.run()
    (chunk,) = pipeline.store.iter_chunks()
    import dataclasses

    pipeline.store.replace_doc_chunks(
        "api-document", [dataclasses.replace(chunk, doc_id="api-document", chunk_id="api-document#c0")]
    )
    pipeline.run()
    assert active_versions(pipeline) == {"a.txt": 1, "api-document": 1}


def test_a_text_that_was_lost_from_the_store_is_read_again(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "First.", "b.txt": "Second."})
    pipeline.run()
    with pipeline.store.connect() as connection:
        connection.execute("DELETE FROM document_text WHERE doc_id = 'a.txt'")
        connection.execute("DELETE FROM staged_chunk WHERE doc_id = 'a.txt'")
        connection.execute("DELETE FROM staged_document WHERE doc_id = 'a.txt'")
    pipeline.run()
    with pipeline.store.connect() as connection:
        assert connection.execute("SELECT text FROM document_text ORDER BY doc_id").fetchall() == [
            ("First.",),
            ("Second.",),
        ]
    assert [chunk.text for chunk in pipeline.store.iter_chunks()] == ["First.", "Second."]


def test_what_is_raised_and_fails_or_is_gone_in_one_run_is_named_by_its_hash(pipeline: Pipeline) -> None:
    pipeline.write({"fails.txt": "good", "goes.txt": "good too", "stays.txt": "open"})
    pipeline.run()
    (pipeline.root / "goes.txt").unlink()
    raised = "doc_id,sensitivity\nfails.txt,RESTRICTED\ngoes.txt,RESTRICTED\n"
    pipeline.write({"fails.txt": b"\x00\x01\x02\xff\xfe\x00bad" * 50, "metadata.csv": raised, "new.txt": "New."})
    documents, *_ = pipeline.run()
    named = {change.what: change.reference for change in documents.changes}
    assert named["new"] == "new.txt"
    assert named["failed"].startswith("doc:")
    assert named["removed"].startswith("doc:")
