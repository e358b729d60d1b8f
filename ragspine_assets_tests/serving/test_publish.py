"""What is published, when, and what becomes of older snapshots (SPEC 6.6)."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from ragspine_assets.audit.serving import audit_published_labels
from ragspine_assets.natural_order import natural_key
from ragspine_assets.pipeline import MassRemovalError
from ragspine_assets.retrieval import NarrativeIndex, NarrativeIndexRetriever
from ragspine_assets.serving import PublishingRefused, Snapshot, SnapshotError, chunk_table_writer, servable_view
from ragspine_assets.serving import publish as publishing
from ragspine_assets.serving.publish import withdraw_raised_snapshots
from ragspine_assets.serving.snapshot_files import CURRENT, mark_withdrawn, snapshot_folders
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.serving.conftest import FILES, SECRET, Port


def test_what_is_active_and_not_restricted_is_published(published: Port) -> None:
    ids = {chunk.doc_id for chunk in published.open().chunks}
    assert ids == {"harbour.txt", "cranes.md", "numbers.txt"}


def test_nothing_above_the_highest_label_is_published(port: Port) -> None:
    report = port.run(max_label="INTERNAL")
    assert {chunk.doc_id for chunk in port.open().chunks} == {"harbour.txt", "cranes.md"}
    assert report.manifest.labels == ("PUBLIC", "INTERNAL")
    assert "numbers.txt" not in {node.id for node in port.open().graph().nodes()}


@pytest.mark.parametrize("label", ["RESTRICTED", "", "SECRET"])
def test_restricted_is_never_a_highest_label(port: Port, label: str) -> None:
    with pytest.raises(ValueError, match="max_label"):
        port.run(max_label=label)


def test_a_document_whose_state_is_restricted_is_not_published_whatever_its_chunks_say(published: Port) -> None:
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'harbour.txt'")
    published.publish()
    assert "harbour.txt" not in {chunk.doc_id for chunk in published.open().chunks}


def test_a_document_that_is_gone_is_not_published(published: Port) -> None:
    (published.pipeline.root / "harbour.txt").unlink()
    report = published.run()
    assert report.documents["gone"] == 1
    assert "harbour.txt" not in {chunk.doc_id for chunk in published.open().chunks}


def test_the_manifest_says_what_is_in_it_and_nothing_of_what_is_not(published: Port) -> None:
    manifest = published.open().manifest
    assert manifest.counts["documents"] == 3
    assert sum(n for name, n in manifest.counts.items() if name.startswith("chunks ")) == manifest.counts["chunks"]
    assert all(len(entry.sha256) == 64 and entry.bytes for entry in manifest.files.values())
    assert "RESTRICTED" not in manifest.to_json()


def test_restricted_documents_leave_no_byte_different(published: Port, tmp_path: Path) -> None:
    before = published.open().manifest
    (published.pipeline.root / "board" / "plan.txt").write_text(SECRET + " More of it, and longer.")
    (published.pipeline.root / "board" / "another.txt").write_text("Restricted too.")
    published.label("board/another.txt", "RESTRICTED")
    report = published.run()
    assert not report.published
    assert published.open().manifest == before


def test_nothing_changed_publishes_nothing(published: Port) -> None:
    before = {path: path.stat().st_mtime_ns for path in published.root.rglob("*")}
    report = published.run()
    assert not report.published
    assert {path: path.stat().st_mtime_ns for path in published.root.rglob("*")} == before


def test_a_table_that_was_not_written_from_its_columns_is_refused(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    blank = chunk_table_writer._blank

    def copied(*arguments: object) -> pa.Array:
        # As a release of Arrow might do that copies what it writes.
        array = blank(*arguments)  # pyright: ignore[reportArgumentType]
        return pa.concat_arrays([array, array[:0]]) if pa.types.is_integer(array.type) else array

    monkeypatch.setattr(chunk_table_writer, "_blank", copied)
    with pytest.raises(RuntimeError, match="from elsewhere"):
        port.run()
    assert snapshot_folders(port.root) == []


def test_the_same_content_gives_the_same_bytes_in_another_store(port: Port, tmp_path: Path) -> None:
    first = port.run()
    port.pipeline.store = ChunkStore(tmp_path / "other" / "store.duckdb")
    port.root = tmp_path / "elsewhere"
    for name in sorted(FILES, reverse=True):
        os.utime(port.pipeline.root / name)
    second = port.run()
    assert second.manifest.files == first.manifest.files
    assert second.manifest.digest == first.manifest.digest


@pytest.mark.parametrize(("rows", "window_bytes"), [(2, 2048), (3, 1), (1, 1)])
def test_however_few_rows_are_read_together_the_snapshot_is_the_same(
    published: Port, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, window_bytes: int
) -> None:
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE narrative_chunk SET window_text = text || ' and more'")
    first = published.publish()
    monkeypatch.setattr(servable_view, "_GROUP", rows)
    monkeypatch.setattr(servable_view, "_WINDOW_BYTES", window_bytes)
    published.root = tmp_path / "again"
    second = published.publish()
    assert second.manifest.files == first.manifest.files


def test_terms_of_unchanged_chunks_are_not_found_again(published: Port) -> None:
    (published.pipeline.root / "numbers.txt").write_text("Tariffs fall by three percent.\n")
    report = published.run()
    assert report.chunks_read == 1
    assert report.chunks_reused == len(published.open()) - 1
    assert report.documents == {"new": 0, "changed": 1, "unchanged": 2, "gone": 0}


def test_an_incremental_snapshot_is_the_same_as_one_made_anew(published: Port, tmp_path: Path) -> None:
    published.pipeline.write({"numbers.txt": "Tariffs fall.\n", "new.txt": "Every crane is greased on Monday.\n"})
    incremental = published.run().manifest.files
    published.root = tmp_path / "anew"
    assert published.publish().manifest.files == incremental


def test_terms_that_nobody_has_any_more_are_gone(published: Port) -> None:
    assert "tariff" in published.open().lexical.terms
    (published.pipeline.root / "numbers.txt").unlink()
    published.run()
    assert "tariff" not in published.open().lexical.terms


def test_a_damaged_snapshot_is_not_built_upon_and_is_replaced(published: Port) -> None:
    (folder,) = snapshot_folders(published.root)
    data = bytearray((folder / "lexical" / "counts.npy").read_bytes())
    data[-1] ^= 1
    (folder / "lexical" / "counts.npy").write_bytes(data)
    report = published.publish()
    assert report.published
    assert report.chunks_reused == 0
    published.open().verify()


def test_only_the_newest_are_kept(published: Port) -> None:
    for number in range(4):
        (published.pipeline.root / "numbers.txt").write_text(f"Tariffs rise by {number} percent.\n")
        report = published.run(keep=2)
    assert len(snapshot_folders(published.root)) == 2
    assert published.open().manifest == report.manifest


def test_content_that_comes_back_is_not_built_again(published: Port) -> None:
    first = published.open().manifest
    (published.pipeline.root / "numbers.txt").write_text("Something else.\n")
    published.run()
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE narrative_chunk SET active = NOT active WHERE doc_id = 'numbers.txt'")
    report = published.publish()
    assert report.published
    assert report.chunks_read == 0
    assert published.open().manifest == first


def test_a_raised_label_is_gone_from_every_kept_snapshot(published: Port) -> None:
    (published.pipeline.root / "numbers.txt").write_text("Tariffs change.\n")
    published.run()
    published.label("cranes.md", "RESTRICTED")
    report = published.run()
    assert len(report.withdrawn) == 2
    (folder,) = snapshot_folders(published.root)
    assert not any(b"greased" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"greased" not in b"".join(p.read_bytes() for p in published.root.rglob("*") if p.is_file())


def test_a_label_raised_above_a_lower_limit_counts_too(port: Port) -> None:
    port.run(max_label="INTERNAL")
    port.label("cranes.md", "CONFIDENTIAL")
    report = port.run(max_label="INTERNAL")
    assert len(report.withdrawn) == 1
    assert {chunk.doc_id for chunk in port.open().chunks} == {"harbour.txt"}


def test_a_lower_limit_takes_what_is_above_it_out_of_kept_snapshots(published: Port) -> None:
    report = published.publish(max_label="PUBLIC")
    assert len(report.withdrawn) == 1
    assert len(snapshot_folders(published.root)) == 1


def test_a_failed_check_forbids_publishing_and_the_former_snapshot_stays(published: Port) -> None:
    before = published.open().manifest
    (published.pipeline.root / "numbers.txt").write_text("Tariffs change.\n")
    with pytest.raises(PublishingRefused, match="chunks: chunks_quote_and_cover_the_text failed last"):
        published.run(failed_checks=["chunks: chunks_quote_and_cover_the_text"])
    assert published.open().manifest == before


def test_a_raised_label_withdraws_what_is_current_even_when_publishing_is_refused(published: Port) -> None:
    reader = published.open()
    published.label("cranes.md", "RESTRICTED")
    with pytest.raises(PublishingRefused):
        published.run(failed_checks=["a check"])
    assert not (published.root / CURRENT).exists()
    assert not snapshot_folders(published.root)
    assert not reader.is_current()


def test_content_that_breaks_isolation_is_not_published(published: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    before = published.open().manifest
    (published.pipeline.root / "numbers.txt").write_text("Tariffs change.\n")
    published.pipeline.run()
    with published.pipeline.store.connect() as connection:
        # A graph that leaks: the entity of the RESTRICTED plan as a node of an open document.
        connection.execute(
            "INSERT INTO graph_node (type, id, label, sensitivity, source_doc_id, source_locator) "
            "VALUES ('entity', 'ZANZ', 'Quuxtitle of the plan', 'INTERNAL', 'harbour.txt', 'harbour.txt#para1')"
        )
    with pytest.raises(PublishingRefused, match=r"something of doc:[0-9a-f]{12}"):
        published.publish()
    assert published.open().manifest == before
    # Without the proof it would have gone out.
    monkeypatch.setattr(publishing, "isolation_traces", lambda *_: [])
    published.publish()
    assert published.open().graph().get_node("ZANZ")


def test_a_stale_building_folder_is_removed(published: Port) -> None:
    (published.root / ".building-1").mkdir()
    (published.root / ".building-CURRENT").write_text("x")
    published.publish()
    assert sorted(path.name for path in published.root.iterdir() if path.name.startswith(".")) == [".lock"]


def test_an_empty_store_publishes_an_empty_snapshot(port: Port) -> None:
    port.publish()
    snapshot = port.open()
    assert len(snapshot) == 0
    assert snapshot.retriever().retrieve("anything") == []
    assert snapshot.graph().nodes() == []


@pytest.mark.parametrize("ids", [["b", "a10", "a9"], ["x", "a/b", "a"], ["a01", "a1"], ["x#c2", "x"], ["a", "a#c5x"]])
def test_chunks_are_in_natural_order_of_their_ids(port: Port, ids: list[str]) -> None:
    from ragspine_assets.chunking.chunk import Chunk

    for doc_id in ids:
        rows = [
            Chunk(
                chunk_id=f"{doc_id}#c{seq}",
                doc_id=doc_id,
                seq=seq,
                text=f"{doc_id} {seq}",
                source_locator="#para1",
                para_start=1,
                para_end=1,
            )
            for seq in range(12)
        ]
        port.pipeline.store.replace_doc_chunks(doc_id, rows)
    port.publish()
    names = [chunk.chunk_id for chunk in port.open().chunks]
    assert names == sorted((f"{doc_id}#c{seq}" for doc_id in ids for seq in range(12)), key=natural_key)


def test_chunks_that_are_called_otherwise_are_in_natural_order_too(port: Port) -> None:
    from ragspine_assets.chunking.chunk import Chunk

    names = ["b", "a10", "a9", "c#c1"]
    rows = [
        Chunk(chunk_id=name, doc_id="d", seq=seq, text=name, source_locator="#para1", para_start=1, para_end=1)
        for seq, name in enumerate(names)
    ]
    port.pipeline.store.replace_doc_chunks("d", rows)
    port.publish()
    assert [chunk.chunk_id for chunk in port.open().chunks] == ["a9", "a10", "b", "c#c1"]
    assert [chunk.text for chunk in port.open().chunks] == ["a9", "a10", "b", "c#c1"]


@pytest.mark.parametrize("analyzer", ["default", "stemmed"])
def test_a_snapshot_answers_like_the_store(port: Port, analyzer: str) -> None:
    port.run(analyzer=analyzer)
    live = NarrativeIndexRetriever(NarrativeIndex(port.pipeline.store, analyzer=analyzer))  # pyright: ignore[reportArgumentType]
    served = port.open().retriever()
    for query in ("crane winter", "tariffs percent", "harbour ships pilot", "nothing of the kind", "the"):
        assert served.retrieve(query) == live.retrieve(query)


_PUBLISH_FOREVER = """
import sys
from pathlib import Path
from ragspine_assets.serving import publish_snapshot
from ragspine_assets.store import ChunkStore
store, root = ChunkStore(sys.argv[1]), sys.argv[2]
number = int(sys.argv[3])
print("ready", flush=True)
while True:
    number += 1
    with store.connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'Tariffs rise by ' || ? WHERE doc_id = 'numbers.txt'", [number])
    publish_snapshot(store, root, keep=2)
"""


def test_killed_at_any_moment_what_is_current_opens_and_verifies(published: Port) -> None:
    random.seed(5)
    moments = int(os.environ.get("RAGSPINE_SOAK", "8"))
    for moment in range(moments):
        arguments = [str(published.pipeline.store.path), str(published.root), str(moment * 1000)]
        publisher = subprocess.Popen([sys.executable, "-c", _PUBLISH_FOREVER, *arguments], stdout=subprocess.PIPE)
        assert publisher.stdout
        publisher.stdout.readline()
        time.sleep(random.uniform(0.0, 0.6))
        publisher.send_signal(signal.SIGKILL)
        publisher.wait()
        publisher.stdout.close()
        snapshot = published.open()
        snapshot.verify()
        assert snapshot.retriever().retrieve("tariffs")
    published.publish()
    assert not [path for path in published.root.iterdir() if path.name.startswith((".building", ".removed"))]


_READ = """
import os, sys, time
from ragspine_assets.serving import Snapshot
root, stop = sys.argv[1], sys.argv[2]
answers = 0
print("ready", flush=True)
while not os.path.exists(stop):
    snapshot = Snapshot.open(root)
    retriever = snapshot.retriever()
    for _ in range(5):
        hits = retriever.retrieve("edition number", top_k=50)
        editions = {hit["text"].split()[-1] for hit in hits}
        assert len(hits) == 40 and len(editions) == 1, (len(hits), editions)
        answers += 1
    time.sleep(0.02)
print(answers, flush=True)
"""


def test_readers_in_other_processes_see_one_edition_at_a_time(port: Port, tmp_path: Path) -> None:
    readers = (int(os.environ.get("RAGSPINE_SOAK", "0")) and 10) or 2
    store = port.pipeline.store

    port.pipeline.write({f"e{n}.txt": "This is edition number 0" for n in range(40)})
    port.run(keep=2)
    stop = tmp_path / "stop"
    started = [
        subprocess.Popen([sys.executable, "-c", _READ, str(port.root), str(stop)], stdout=subprocess.PIPE, text=True)
        for _ in range(readers)
    ]
    for reader in started:
        assert reader.stdout
        assert reader.stdout.readline() == "ready\n"
    for edition in range(1, 21 if readers == 10 else 6):
        with store.connect() as connection:
            connection.execute(
                "UPDATE narrative_chunk SET text = 'This is edition number ' || ? WHERE doc_id LIKE 'e%'", [edition]
            )
        port.publish(keep=2)
    stop.touch()
    for reader in started:
        answers, _ = reader.communicate(timeout=60)
        assert reader.returncode == 0
        assert int(answers) > 0
    assert store.count() > 40


def test_a_published_folder_works_where_it_is_copied(published: Port, tmp_path: Path) -> None:
    import shutil

    (folder,) = snapshot_folders(published.root)
    copy = Path(shutil.copytree(folder, tmp_path / "anywhere"))
    shutil.rmtree(published.root)
    published.pipeline.store.close()
    snapshot = Snapshot.open(copy)
    assert snapshot.retriever().retrieve("crane")[0]["doc_id"] == "cranes.md"
    assert snapshot.graph().get_node("HARB")
    assert not snapshot.is_current()


def test_a_reader_keeps_its_snapshot_when_it_is_deleted(published: Port) -> None:
    reader = published.open()
    (published.pipeline.root / "numbers.txt").write_text("Tariffs change.\n")
    published.run(keep=1)
    assert not reader.path.exists()
    assert not reader.is_current()
    assert reader.retriever().retrieve("tariffs")[0]["text"] == "Tariffs rise by two percent."
    assert reader.graph().get_node("numbers.txt")
    assert published.open().is_current()


def test_current_that_names_no_snapshot_is_an_error_with_a_cure(published: Port) -> None:
    (published.root / CURRENT).write_text("../../etc\n")
    with pytest.raises(SnapshotError, match="make run"):
        published.open()
    published.publish()
    published.open()


def test_the_manifest_is_json_that_other_tools_read(published: Port) -> None:
    (folder,) = snapshot_folders(published.root)
    body = json.loads((folder / "manifest.json").read_text())
    assert body["product"] == "ragspine_assets"
    assert body["counts"]["documents"] == 3


@pytest.mark.parametrize("through", ["files", "the store"])
def test_what_crosses_a_cut_of_an_open_paragraph_is_no_trace_of_a_closed_one(port: Port, through: str) -> None:
    from ragspine_assets.chunking import DocumentMeta, chunk_document

    paragraph = " ".join(f"Quay {number} is dredged by the crew of barge {number * 7}." for number in range(45))
    secret = f"---\nsensitivity: RESTRICTED\n---\nNobody may know.\n{paragraph}\n"
    port.pipeline.write({"secret.md": secret, **({"open.md": paragraph} if through == "files" else {})})
    port.pipeline.run()
    if through == "the store":
        port.pipeline.store.replace_doc_chunks("open", chunk_document(paragraph, DocumentMeta("open")))
    port.publish()
    published = {chunk.doc_id for chunk in port.open().chunks}
    assert ("open.md" if through == "files" else "open") in published
    assert "secret.md" not in published


def raise_and_fail(port: Port, **options: object) -> None:
    """Raise a label in a run whose breaker stops it right afterwards."""
    port.label("cranes.md", "RESTRICTED")
    with pytest.raises(MassRemovalError):
        for number in range(12):
            (port.pipeline.root / f"{number}.txt").unlink()
        port.pipeline.intake(**options)


def with_twelve_more(port: Port) -> Port:
    port.pipeline.write({f"{number}.txt": f"Sentence number {number}." for number in range(12)})
    port.run()
    return port


def delete_what_was_raised(port: Port) -> Callable[[duckdb.DuckDBPyConnection], object]:
    return lambda connection: withdraw_raised_snapshots(connection, port.root)


def test_what_was_raised_is_gone_though_the_run_fails_right_afterwards(published: Port) -> None:
    port = with_twelve_more(published)
    held = snapshot_folders(port.root)
    reader = port.open()
    assert len(held) == 2
    raise_and_fail(port, after_raise=delete_what_was_raised(port))
    assert not snapshot_folders(port.root)
    assert b"greased" not in b"".join(p.read_bytes() for p in port.root.rglob("*") if p.is_file())
    assert not reader.is_current()
    for folder in held:
        with pytest.raises(SnapshotError, match="was withdrawn: the label of a document in it was raised"):
            Snapshot.open(folder)


def test_without_the_deletion_the_check_says_what_still_holds_it(published: Port) -> None:
    port = with_twelve_more(published)
    raise_and_fail(port)
    assert len(snapshot_folders(port.root)) == 2
    result = audit_published_labels(port.pipeline.store, port.root, withdraw=False)
    assert not result.passed
    withdraw_raised = delete_what_was_raised(port)
    with port.pipeline.store.connect() as connection:
        withdraw_raised(connection)
    assert audit_published_labels(port.pipeline.store, port.root, withdraw=False).passed


def test_a_withdrawn_folder_is_refused_where_deleting_it_broke_off(published: Port) -> None:
    (folder,) = snapshot_folders(published.root)
    reader = published.open()
    mark_withdrawn(published.root, [folder.name])
    with pytest.raises(SnapshotError, match="was withdrawn"):
        Snapshot.open(folder)
    assert not reader.is_current()
    folder.rename(published.root / f".removed-{folder.name}-1")
    assert not audit_published_labels(published.pipeline.store, published.root).passed
    # Lowered again, or published from a store that never raised it, the same content may be read.
    assert published.publish().published
    assert published.open().is_current()


def test_what_is_only_gone_withdraws_nothing(published: Port) -> None:
    (published.pipeline.root / "cranes.md").unlink()
    published.pipeline.run(after_raise=delete_what_was_raised(published))
    with published.pipeline.store.connect() as connection:
        assert withdraw_raised_snapshots(connection, published.root) == []
    assert published.open().is_current()
    with ChunkStore(published.root.parent / "another.duckdb").connect() as connection:
        assert withdraw_raised_snapshots(connection, published.root) == []
