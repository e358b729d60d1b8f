"""Reading a snapshot: what is refused, what is found, what stays readable (SPEC 6.6)."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ragspine_assets.chunking import make_chunker
from ragspine_assets.pipeline import activate_staged, stage_chunks
from ragspine_assets.serving import Snapshot, SnapshotError
from ragspine_assets.serving.snapshot_files import CURRENT, MANIFEST, snapshot_folders
from ragspine_assets_tests.serving.conftest import Port


def folder_of(port: Port) -> Path:
    (folder,) = snapshot_folders(port.root)
    return folder


def test_where_nothing_is_published_the_error_says_how_to_publish(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="make run"):
        Snapshot.open(tmp_path)
    with pytest.raises(SnapshotError, match="make run"):
        Snapshot.open(tmp_path / "missing")


@pytest.mark.parametrize(
    "name",
    ["chunks.arrow", "graph_edge.arrow", "lexical/data.csc.index.npy", "lexical/terms.npy", "lexical/lexical.json"],
)
@pytest.mark.parametrize("damage", ["missing", "truncated", "one byte", "empty"])
def test_a_damaged_file_is_refused_and_named(published: Port, name: str, damage: str) -> None:
    path = folder_of(published) / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with pytest.raises(SnapshotError, match=name):
        published.open()


def test_a_large_snapshot_is_opened_by_size_and_verified_on_demand(published: Port) -> None:
    path = folder_of(published) / "chunks.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b"greased")] ^= 1
    path.write_bytes(data)
    snapshot = Snapshot.open(published.root, verify=False)
    with pytest.raises(SnapshotError, match=r"chunks\.arrow"):
        snapshot.verify()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 99}, "format 99.*Update"),
        ({"format": 0}, "format 0.*Publish it again"),
        ({"product": "other"}, "not written by"),
        ({"max_label": "RESTRICTED"}, "not as it was published"),
        ({"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}}, "not as it was published"),
    ],
)
def test_a_manifest_that_is_not_ours_is_refused_with_a_reason(
    published: Port, change: dict[str, object], said: str
) -> None:
    path = folder_of(published) / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SnapshotError, match=said):
        published.open()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"product": "ragspine_assets"}'])
def test_a_broken_manifest_is_refused(published: Port, text: str) -> None:
    (folder_of(published) / MANIFEST).write_text(text)
    with pytest.raises(SnapshotError, match=MANIFEST):
        published.open()


def test_a_folder_without_its_manifest_is_refused(published: Port) -> None:
    (folder_of(published) / MANIFEST).unlink()
    with pytest.raises(SnapshotError, match="no manifest"):
        published.open()


def test_a_withdrawn_snapshot_is_seen_by_who_has_it_open(published: Port) -> None:
    reader = published.open()
    assert reader.is_current()
    (published.root / CURRENT).unlink()
    assert not reader.is_current()
    with pytest.raises(SnapshotError, match="withdrawn"):
        published.open()


def test_a_snippet_is_complete_and_its_citation_leads_back_to_it(published: Port) -> None:
    snapshot = published.open()
    (snippet, *_) = snapshot.retriever().retrieve("cranes heated in winter")
    chunk = snapshot.chunk(str(snippet["chunk_id"]))
    assert chunk
    assert chunk.text == snippet["text"]
    assert chunk.citation == "cranes.md@v1#c0"
    assert snapshot.chunk(chunk.citation) == chunk
    assert snapshot.retriever().retrieve("pilot")[0]["title"] == "Harbour rules"
    assert snippet["sensitivity"] == "INTERNAL"


@pytest.mark.parametrize(
    "citation",
    ["", "cranes.md", "cranes.md@v2#c0", "cranes.md@v1#c99", "board/plan.txt@v1#c0", "#c0", "cranes.md@v1#c-1"],
)
def test_what_is_not_there_has_no_chunk(published: Port, citation: str) -> None:
    assert published.open().chunk(citation) is None


def test_every_chunk_is_read_back_as_the_store_has_it(published: Port) -> None:
    snapshot = published.open()
    stored = {chunk.citation: chunk for chunk in published.pipeline.store.iter_chunks()}
    for chunk in snapshot.chunks:
        before = stored[chunk.citation]
        for name in (
            "text",
            "source_locator",
            "title",
            "para_start",
            "para_end",
            "char_end",
            "sensitivity",
            "valid_as_of",
        ):
            assert getattr(chunk, name) == getattr(before, name)


def test_filters_and_labels_restrict_what_is_found(published: Port) -> None:
    snapshot = published.open()
    assert {s["doc_id"] for s in snapshot.retriever().retrieve("the", filters={"topic": "rules"})} == {"harbour.txt"}
    assert snapshot.retriever().retrieve("crane", filters={"entity": "NOBODY"}) == []
    assert snapshot.retriever(max_label="PUBLIC").retrieve("crane tariffs") == []
    for label in ("RESTRICTED", ""):
        with pytest.raises(ValueError, match="max_label"):
            snapshot.retriever(max_label=label)


def test_a_snapshot_of_lower_labels_is_not_opened_up_by_asking_for_more(port: Port) -> None:
    port.run(max_label="INTERNAL")
    assert port.open().retriever(max_label="CONFIDENTIAL").retrieve("tariffs") == []


def test_windows_are_shown_and_siblings_collapse(port: Port) -> None:
    with port.pipeline.store:
        port.pipeline.intake()
        stage_chunks(port.pipeline.store, make_chunker("parent_child"), max_chars=40, overlap_chars=0)
        activate_staged(port.pipeline.store)
    port.publish()
    snapshot = port.open()
    every = snapshot.retriever().retrieve("ships pilot harbour")
    one = snapshot.retriever(collapse_parents=True).retrieve("ships pilot harbour")
    assert len(every) > len(one) == 1
    assert str(every[0]["text"]) in str(every[0]["prompt_text"])
    assert every[0]["parent_locator"]


def test_threads_share_a_snapshot(published: Port) -> None:
    retriever = published.open().retriever()
    alone = {query: retriever.retrieve(query) for query in ("crane winter", "harbour pilot", "tariffs", "the six")}
    wrong = []

    def ask(query: str) -> None:
        for _ in range(50):
            if retriever.retrieve(query) != alone[query]:
                wrong.append(query)

    threads = [threading.Thread(target=ask, args=(query,)) for query in alone for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_reader_needs_neither_dagster_nor_the_store(published: Port, tmp_path: Path) -> None:
    copy = shutil.copytree(folder_of(published), tmp_path / "copy")
    code = (
        "import sys; from ragspine_assets.serving import Snapshot; "
        f"s = Snapshot.open({str(copy)!r}); assert s.retriever().retrieve('crane'); s.graph().nodes(); "
        "assert 'dagster' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)


def test_the_representation_holds_no_text(published: Port) -> None:
    assert "crane" not in repr(published.open())
