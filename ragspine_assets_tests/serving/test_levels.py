"""Audiences below a snapshot's highest label are served as if it had never held the rest (SPEC 8.3)."""

from pathlib import Path

import pytest

from ragspine_assets.serving import Snapshot, SnapshotError, publish_snapshot
from ragspine_assets.serving.snapshot_files import read_manifest
from ragspine_assets_tests.serving.conftest import Port

QUERIES = ("harbour", "cranes greased on Monday", "tariffs rise by two percent", "the", "ninety million", "")


def alone(port: Port, folder: Path, label: str) -> Snapshot:
    """What is published where nothing above a label may be."""
    publish_snapshot(port.pipeline.store, folder, max_label=label)
    return Snapshot.open(folder)


@pytest.mark.parametrize("label", ["PUBLIC", "INTERNAL"])
def test_a_level_equals_a_snapshot_that_never_held_the_rest(published: Port, tmp_path: Path, label: str) -> None:
    published.publish(levels=["INTERNAL", "PUBLIC"])
    level, own = published.open().up_to(label), alone(published, tmp_path / "alone", label)
    for name in own.manifest.files.keys() - {"chunks.arrow"}:
        assert (level.path / "levels" / label / name).read_bytes() == (own.path / name).read_bytes(), name
    assert (level.manifest.name, level.manifest.counts) == (own.manifest.name, own.manifest.counts)
    assert list(level.chunks) == list(own.chunks)
    for query in QUERIES:
        for filters in (None, {"entity": "HARB"}, {"topic": "prices"}):
            assert level.retriever().retrieve(query, filters=filters) == own.retriever().retrieve(
                query, filters=filters
            )
    assert level.retriever(collapse_parents=True).retrieve("crane") == own.retriever(collapse_parents=True).retrieve(
        "crane"
    )
    assert level.chunk("numbers.txt#c0") is None
    assert not any("numbers.txt" in level.chunks.values[name] for name in level.chunks.values)
    assert level.graph().nodes() == own.graph().nodes()


def test_a_level_keeps_its_name_and_its_time_when_only_something_above_it_changes(published: Port) -> None:
    published.publish(levels=["INTERNAL"])
    before = published.open()
    published.pipeline.write({"numbers.txt": "Tariffs rise by three percent.\n"})
    published.run(levels=["INTERNAL"])
    after = published.open()
    assert before.manifest.name != after.manifest.name
    assert before.up_to("INTERNAL").manifest.digest == after.up_to("INTERNAL").manifest.digest
    assert before.up_to("INTERNAL").manifest.published_at == after.up_to("INTERNAL").manifest.published_at


def test_without_levels_not_a_byte_differs(published: Port) -> None:
    before = published.open()
    assert not published.publish(levels=["CONFIDENTIAL"]).published
    manifest = read_manifest(before.path)
    assert '"levels"' not in manifest.to_json()
    assert not (before.path / "levels").exists()


def test_a_level_that_was_not_published_is_refused_and_says_how_to_publish_it(published: Port) -> None:
    with pytest.raises(SnapshotError, match="RAGSPINE_SNAPSHOT_LEVELS"):
        published.open().up_to("PUBLIC")
    assert published.open().up_to("CONFIDENTIAL").manifest.max_label == "CONFIDENTIAL"
