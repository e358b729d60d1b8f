"""Versions, filters, citations and labels of the chunk store (SPEC 3)."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from ragspine_assets.chunking import Chunk, DocumentMeta, chunk_document
from ragspine_assets.store import ChunkStore, StoreBusyError, StoredChunk


@pytest.fixture
def store(tmp_path: Path) -> ChunkStore:
    return ChunkStore(tmp_path / "store.duckdb")


def cut(doc_id: str, text: str, **meta: str) -> list[Chunk]:
    return chunk_document(text, DocumentMeta(doc_id, **meta), max_chars=20, overlap_chars=0)  # pyright: ignore[reportArgumentType]


def test_every_field_of_a_chunk_comes_back(store: ChunkStore) -> None:
    chunk = dataclasses.replace(
        cut("d", "text")[0], title="T", topic="P", entity="E", geography="G", period="FY2024", language="it",
        sensitivity="PUBLIC", parent_id="d#s0", heading="H", window_text="the text", parent_locator="d#para1-3",
        page_start=2, page_end=3, char_start=7, char_end=11, valid_as_of="2024-01-01",
    )  # fmt: skip
    store.replace_doc_chunks("d", [chunk])
    (stored,) = store.iter_chunks()
    assert {f.name: getattr(stored, f.name) for f in dataclasses.fields(chunk)} == dataclasses.asdict(chunk)
    assert (stored.version, stored.active) == (1, True)
    assert stored.ingested_at.endswith("Z")


def test_window_fields_of_a_stored_chunk_default_to_empty() -> None:
    stored = StoredChunk("d#c0", "d", 0, "text", "d#para1", 1, 1)
    assert (stored.parent_id, stored.heading, stored.window_text, stored.parent_locator) == ("", "", "", "")


def test_replacing_deactivates_the_former_version_and_counts_on(store: ChunkStore) -> None:
    assert store.replace_doc_chunks("d", cut("d", "one")) == 1
    assert store.replace_doc_chunks("d", cut("d", "two")) == 2
    assert [(c.text, c.version) for c in store.iter_chunks()] == [("two", 2)]
    assert [(c.text, c.version) for c in store.iter_chunks(include_inactive=True)] == [("one", 1), ("two", 2)]
    assert (store.count(), store.count(include_inactive=True)) == (1, 2)


def test_an_empty_list_withdraws_the_document(store: ChunkStore) -> None:
    store.replace_doc_chunks("d", cut("d", "one"))
    store.replace_doc_chunks("d", [])
    assert list(store.iter_chunks()) == []
    assert store.replace_doc_chunks("d", cut("d", "again")) == 2


def test_replacing_one_document_leaves_the_others_alone(store: ChunkStore) -> None:
    store.replace_doc_chunks("a", cut("a", "one"))
    store.replace_doc_chunks("b", cut("b", "one"))
    store.replace_doc_chunks("a", cut("a", "two"))
    assert [(c.doc_id, c.version) for c in store.iter_chunks()] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("name", ["doc_id", "topic", "entity", "geography", "period", "language"])
def test_chunks_are_filtered_by_each_column(store: ChunkStore, name: str) -> None:
    for doc_id in ("a", "b"):
        meta = {} if name == "doc_id" else {name: f"{name} of {doc_id}"}
        store.replace_doc_chunks(doc_id, cut(doc_id, "text", **meta))
    value = "a" if name == "doc_id" else f"{name} of a"
    assert [c.doc_id for c in store.iter_chunks(**{name: value})] == ["a"]  # pyright: ignore[reportArgumentType]


def test_chunks_come_in_the_order_of_document_sequence_and_version(store: ChunkStore) -> None:
    text = "\n".join(f"{n} filling the line." for n in range(12))
    for doc_id in ("b", "a"):
        store.replace_doc_chunks(doc_id, cut(doc_id, text))
        store.replace_doc_chunks(doc_id, cut(doc_id, text))
    keys = [(c.doc_id, c.seq, c.version) for c in store.iter_chunks(include_inactive=True)]
    assert keys == sorted(keys)
    assert len({seq for _, seq, _ in keys}) == 12


def test_a_citation_resolves_also_when_its_version_is_inactive(store: ChunkStore) -> None:
    store.replace_doc_chunks("a/b#c@v1.txt", cut("a/b#c@v1.txt", "one"))
    store.replace_doc_chunks("a/b#c@v1.txt", cut("a/b#c@v1.txt", "two"))
    for chunk in store.iter_chunks(include_inactive=True):
        assert store.resolve(chunk.citation) == chunk


@pytest.mark.parametrize("citation", ["", "d", "d@v1", "d#c0", "d@v9#c0", "d@v1#c9", "d@vx#c0", "d@v1#c", "d@v1#c-1"])
def test_what_is_no_citation_resolves_to_nothing(store: ChunkStore, citation: str) -> None:
    store.replace_doc_chunks("d", cut("d", "one"))
    assert store.resolve(citation) is None


@pytest.mark.parametrize("label", ["SECRET", "", " ", "Restricted\u200b", "ＲＥＳＴＲＩＣＴＥＤ"])
def test_a_label_outside_the_lattice_is_stored_as_restricted(store: ChunkStore, label: str) -> None:
    store.replace_doc_chunks("d", cut("d", "one", sensitivity=label))
    assert {c.sensitivity for c in store.iter_chunks()} == {"RESTRICTED"}


def test_a_higher_label_raises_that_of_older_versions_and_a_lower_one_does_not_lower_it(store: ChunkStore) -> None:
    store.replace_doc_chunks("d", cut("d", "one", sensitivity="PUBLIC"))
    store.replace_doc_chunks("d", cut("d", "two", sensitivity="CONFIDENTIAL"))
    assert {c.sensitivity for c in store.iter_chunks(include_inactive=True)} == {"CONFIDENTIAL"}
    store.replace_doc_chunks("d", cut("d", "three", sensitivity="INTERNAL"))
    assert [(c.version, c.sensitivity) for c in store.iter_chunks(include_inactive=True)] == [
        (1, "CONFIDENTIAL"), (2, "CONFIDENTIAL"), (3, "INTERNAL"),
    ]  # fmt: skip


def test_chunks_of_another_document_are_refused_and_nothing_changes(store: ChunkStore) -> None:
    store.replace_doc_chunks("d", cut("d", "one"))
    with pytest.raises(ValueError, match="another document"):
        store.replace_doc_chunks("d", cut("e", "two"))
    assert [c.text for c in store.iter_chunks()] == ["one"]


def test_valid_as_of_is_stored_for_the_whole_version(store: ChunkStore) -> None:
    store.replace_doc_chunks("d", cut("d", "one\ntwo"), valid_as_of="2025-12-31")
    assert {c.valid_as_of for c in store.iter_chunks()} == {"2025-12-31"}


def test_text_of_any_script_and_size_comes_back_unchanged(store: ChunkStore) -> None:
    text = "Ünï 中文 かな 한국어 ไทย 🧪\u0301 \u202e" + "x" * 100_000
    chunk = dataclasses.replace(cut("d", "a")[0], text=text)
    store.replace_doc_chunks("d", [chunk])
    assert next(store.iter_chunks()).text == text


def test_reading_while_writing_with_one_open_store_sees_the_state_before(store: ChunkStore) -> None:
    with store:
        store.replace_doc_chunks("a", cut("a", "one"))
        for chunk in store.iter_chunks():
            store.replace_doc_chunks("a", cut("a", chunk.text + " more"))
        assert [c.text for c in store.iter_chunks()] == ["one more"]


def test_a_store_in_memory_keeps_its_rows_between_calls() -> None:
    store = ChunkStore(":memory:")
    store.replace_doc_chunks("d", cut("d", "one"))
    assert [c.text for c in store.iter_chunks()] == ["one"]


def test_a_store_that_is_kept_open_is_open_between_calls_and_free_after_close(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    kept = ChunkStore(path, keep_open=True)
    kept.count()
    other = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(path)!r})"]
    assert subprocess.run(other, capture_output=True, check=False).returncode != 0
    kept.close()
    assert subprocess.run(other, capture_output=True, check=False).returncode == 0
    assert kept.count() == 0
    kept.close()


def test_a_store_that_is_kept_open_lets_go_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    kept = ChunkStore(path, keep_open=True)
    with pytest.raises(ZeroDivisionError), kept.connect():
        raise ZeroDivisionError
    other = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(path)!r})"]
    assert subprocess.run(other, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("keep_open", [True, False])
def test_who_makes_many_calls_waits_once_for_a_store_that_is_held(tmp_path: Path, *, keep_open: bool) -> None:
    path = tmp_path / "store.duckdb"
    code = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    store, waits = ChunkStore(path, wait_s=1.0, keep_open=keep_open), []
    try:
        assert holder.stdout
        holder.stdout.readline()
        for _ in range(3):
            with pytest.raises(StoreBusyError) as told:
                store.init_schema()
            waits.append("waited 0 s" not in str(told.value))
    finally:
        holder.kill()
        holder.communicate()
    assert waits == [True, not keep_open, not keep_open]
