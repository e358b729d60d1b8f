"""Promise: the writer and the proof agree about every label, and one odd document stops nobody (SPEC 1.6, 1.8, 6.3)."""

import pytest

from ragspine_assets.audit.chunk_store import audit_versions
from ragspine_assets.audit.chunks import audit_chunk_labels
from ragspine_assets.audit.raw_documents import audit_labels, audit_source_labels
from ragspine_assets_tests.conftest import Pipeline

ODD_BLOCKS = {
    "impossible date": "date: 2024-02-30",
    "zero date": "date: 0000-00-00",
    "odd time": "date: 2001-12-14t21:59:99Z",
    "binary": "x: 0b_",
    "hexadecimal": "x: 0x_",
    "tag of an integer": "x: !!int abc",
    "tag of a time": "x: !!timestamp abc",
    "tag of a site generator": "title: !important\nx: !foo bar",
    "equals sign": "x: =",
    "merge key": "x: <<",
    "a list as label": "sensitivity:\n- CONFIDENTIAL",
    "a short list as label": "sensitivity: [CONFIDENTIAL]",
    "only a comment": "# only a comment",
    "label twice": "sensitivity: PUBLIC\nsensitivity: INTERNAL",
    "deep": "x: " + "[" * 2000,
    "deep mappings": "x: " + "{a: " * 1500,
    "alias": "a: &a [1, 2]\nb: *a",
    "other case": "Sensitivity: confidential",
    "wide letters": "ｓｅｎｓｉｔｉｖｉｔｙ: ＰＵＢＬＩＣ",
    "empty label": "sensitivity:",
    "mapping as label": "sensitivity: {a: b}",
    "label of other words": "sensitivity: top secret",
}


@pytest.mark.parametrize("name", ODD_BLOCKS)
def test_front_matter_that_the_writer_took_is_proved(pipeline: Pipeline, name: str) -> None:
    pipeline.write({"odd.md": f"---\ntitle: T\n{ODD_BLOCKS[name]}\n---\nBody", "other.txt": "Other"})
    documents, *_ = pipeline.run()
    assert documents.outcomes == {"new": 2}
    for result in (
        audit_source_labels(pipeline.store, pipeline.root, pipeline.policy),
        audit_labels(pipeline.store),
        audit_chunk_labels(pipeline.store),
    ):
        assert result.passed, result.message


@pytest.mark.parametrize(
    "block",
    [
        'notes: "' + "lorem ipsum " * 6000 + '"\nsensitivity: RESTRICTED',
        "\n".join(f"k{n}: v" for n in range(20_000)) + "\nsensitivity: RESTRICTED",
        "x: " + "[" * 70_000 + "\nsensitivity: RESTRICTED",
        'notes: "' + "lorem ipsum " * 6000 + '"',
    ],
    ids=["long value", "many keys", "brackets", "no label"],
)
def test_front_matter_that_is_too_long_is_restricted_and_reported(pipeline: Pipeline, block: str) -> None:
    pipeline.write({"long.md": f"---\ntitle: L\n{block}\n---\nThe text."})
    documents, *_ = pipeline.run()
    assert pipeline.rows("SELECT sensitivity FROM document") == [("RESTRICTED",)]
    assert "too long" in documents.problems[0]


def test_a_label_far_down_in_front_matter_without_an_end_counts(pipeline: Pipeline) -> None:
    pipeline.write({"open.md": "---\n" + "x: y\n" * 30_000 + "sensitivity: RESTRICTED\nThe text."})
    pipeline.run()
    assert pipeline.rows("SELECT sensitivity FROM document") == [("RESTRICTED",)]


def test_rules_far_apart_in_a_long_text_are_no_front_matter(pipeline: Pipeline) -> None:
    pipeline.write({"long.md": "---\nOnce upon a time\n\n" + "words and words\n" * 10_000 + "\n---\nThe end."})
    documents, *_ = pipeline.run()
    assert pipeline.rows("SELECT sensitivity FROM document") == [("INTERNAL",)]
    assert documents.problems == []


def test_a_character_without_width_does_not_hide_front_matter(pipeline: Pipeline) -> None:
    pipeline.write({"a.md": "\u200b---\nsensitivity: RESTRICTED\n---\nText"})
    pipeline.run()
    assert pipeline.rows("SELECT sensitivity FROM document") == [("RESTRICTED",)]


def test_a_lowered_label_reaches_the_store_in_one_run_and_every_proof_holds_at_each_stage(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "alpha", "metadata.csv": "doc_id,sensitivity\na.txt,RESTRICTED\n"})
    pipeline.run()
    pipeline.write({"metadata.csv": "doc_id,sensitivity\na.txt,PUBLIC\n"})
    from ragspine_assets.pipeline import activate_staged, stage_chunks

    pipeline.intake()
    stage_chunks(pipeline.store)
    assert audit_chunk_labels(pipeline.store).passed
    activate_staged(pipeline.store)
    assert audit_chunk_labels(pipeline.store).passed
    assert audit_versions(pipeline.store).passed
    assert pipeline.rows("SELECT version, sensitivity FROM narrative_chunk ORDER BY 1") == [
        (1, "RESTRICTED"),
        (2, "PUBLIC"),
    ]


@pytest.mark.parametrize(
    "table",
    [
        b"doc_id,sensitivity\n./a.txt,CONFIDENTIAL\n",
        "doc_id,sensitivity\na.txt,CONFIDENTIAL\n".encode("utf-16"),
        b"doc_id,sensitivity\n*.txt,CONFIDENTIAL\n",
    ],
    ids=["dotted path", "UTF-16", "glob"],
)
def test_a_forged_label_is_seen_however_the_row_is_spelled(pipeline: Pipeline, table: bytes) -> None:
    pipeline.write({"a.txt": "Text", "metadata.csv": table})
    pipeline.run()
    assert pipeline.rows("SELECT sensitivity FROM document") == [("CONFIDENTIAL",)]
    with pipeline.store.connect() as connection:
        for name in ("document", "staged_chunk", "narrative_chunk"):
            connection.execute(f"UPDATE {name} SET sensitivity = 'PUBLIC'")
    assert not audit_source_labels(pipeline.store, pipeline.root, pipeline.policy).passed
