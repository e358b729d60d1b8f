"""Chunks as Arrow columns (SPEC 3.3, 1.9)."""

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.chunking import Chunk, Chunker, DocumentMeta
from ragspine_assets.chunking.columns import CHUNK_SCHEMA, rows_digest
from ragspine_assets.chunking.enforcement import ChunkBatch, DocumentInput, chunk_batches, cut_document
from ragspine_assets.store.schema import CHUNK_COLUMNS

from .rule import CHUNKERS, TEXTS, sizes


def document(text: str, doc_id: str = "d", **metadata: str) -> DocumentInput:
    return DocumentInput(text, DocumentMeta(doc_id, **metadata), [1, 2, 5])


def rows_of(batches: list[ChunkBatch]) -> pa.Table:
    return pa.Table.from_batches([batch.rows for batch in batches], CHUNK_SCHEMA).unify_dictionaries()


def digest_of(text: str, chunker: Chunker | None = None, **metadata: str) -> str:
    (batch,) = chunk_batches([document(text, **metadata)], chunker)
    return batch.documents[0].rows_digest


@pytest.mark.parametrize("chunker", CHUNKERS.values(), ids=CHUNKERS.keys())
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4), size=sizes(), rows_per_batch=st.integers(1, 40))
def test_columns_equal_the_chunks_as_objects(
    chunker: Chunker, texts: list[str], size: tuple[int, int], rows_per_batch: int
) -> None:
    max_chars, overlap_chars = size
    documents = [document(text, f"d{n}", title="T", sensitivity="PUBLIC") for n, text in enumerate(texts)]
    batches = list(
        chunk_batches(
            documents, chunker, max_chars=max_chars, overlap_chars=overlap_chars, rows_per_batch=rows_per_batch
        )
    )
    expected = [
        cut_document(
            d.text, d.meta, chunker, max_chars=max_chars, overlap_chars=overlap_chars, page_starts=d.page_starts
        )
        for d in documents
    ]
    assert [Chunk(**row) for row in rows_of(batches).to_pylist()] == [chunk for chunks in expected for chunk in chunks]
    finished = [done for batch in batches for done in batch.documents]
    assert [(done.doc_id, done.chunks) for done in finished] == [(f"d{n}", len(c)) for n, c in enumerate(expected)]
    table = rows_of(batches)
    for done in finished:
        own = table.filter(pa.compute.equal(table["doc_id"], done.doc_id))
        assert rows_digest(own) == done.rows_digest


def test_the_columns_are_those_of_the_store() -> None:
    assert tuple(CHUNK_SCHEMA.names) == CHUNK_COLUMNS


def test_a_window_stands_once_however_many_children_share_it() -> None:
    text = "# A\n" + "A sentence of the section, again.\n" * 200
    (batch,) = chunk_batches([document(text)], CHUNKERS["parent_child"])
    column = batch.rows.column("window_text")
    assert len(column) > 10
    assert len(column.dictionary) == 2  # one window, and the empty one


def test_a_document_stays_whole_in_one_batch() -> None:
    documents = [document("line of text\n" * 400, f"d{n}") for n in range(6)]
    batches = list(chunk_batches(documents, max_chars=13, overlap_chars=0, rows_per_batch=1_000))
    assert [[done.doc_id for done in batch.documents] for batch in batches] == [
        ["d0", "d1"],
        ["d2", "d3"],
        ["d4", "d5"],
    ]
    assert [batch.rows.num_rows for batch in batches] == [800, 800, 800]


def test_documents_are_read_one_batch_at_a_time() -> None:
    read: list[int] = []

    def endless() -> object:
        for n in range(1_000_000):
            read.append(n)
            yield document("line of text\n" * 100, f"d{n}")

    next(chunk_batches(endless(), max_chars=13, overlap_chars=0, rows_per_batch=500))  # type: ignore[arg-type]
    assert len(read) <= 7


def test_many_documents_without_text_make_no_endless_batch() -> None:
    batches = list(chunk_batches((document("", f"d{n}") for n in range(100)), rows_per_batch=30))
    assert [len(batch.documents) for batch in batches] == [30, 30, 30, 10]


def test_a_document_that_cannot_be_cut_is_reported_and_does_not_stop_the_others() -> None:
    class Picky:
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
            if meta.doc_id == "bad":
                raise RuntimeError(text)
            return CHUNKERS["default"].chunk(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)

    (batch,) = chunk_batches([document("a", "one"), document("Codeword", "bad"), document("b", "two")], Picky())
    assert batch.failed == [("bad", "the chunker raised RuntimeError")]
    assert [done.doc_id for done in batch.documents] == ["one", "two"]
    assert set(batch.rows.column("doc_id").to_pylist()) == {"one", "two"}


def test_metadata_that_cannot_be_stored_fail_their_document_only() -> None:
    unnamed = document("c", "unnamed")
    object.__setattr__(unnamed.meta, "title", 7)
    (batch,) = chunk_batches([document("a", "\ud800"), unnamed, document("b", "good")])
    assert batch.failed == [
        ("\ud800", "its id holds characters that UTF-8 cannot store"),
        ("unnamed", "its title is no string"),
    ]
    assert [done.doc_id for done in batch.documents] == ["good"]


def test_nothing_to_cut_gives_no_batch() -> None:
    assert list(chunk_batches([])) == []


def test_a_batch_of_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="rows_per_batch must be positive"):
        chunk_batches([], rows_per_batch=0)


def test_duckdb_reads_batches_with_their_dictionaries() -> None:
    documents = [document(f"# Head {n}\ntext, of {n}.", f"d{n}") for n in range(50)]
    batches = chunk_batches(documents, CHUNKERS["parent_child"], rows_per_batch=7)
    with duckdb.connect() as connection:
        reader = pa.RecordBatchReader.from_batches(CHUNK_SCHEMA, (batch.rows for batch in batches))
        connection.register("rows", reader)
        found = connection.execute("SELECT window_text FROM rows ORDER BY seq, doc_id").fetchall()
    assert sorted(row[0] for row in found) == sorted(f"# Head {n}\ntext, of {n}." for n in range(50))


def test_the_digest_of_known_rows_is_this_one() -> None:
    assert digest_of("one\ntwo") == "913cb05f2934dece6a06dd727ca4ba010f5ebe66f0b63a6904c8f57ac5875020"


LONG = "".join(f"Sentence number {n}, it is.\n" for n in range(3_000))


def test_the_digest_does_not_depend_on_how_rows_are_batched() -> None:
    for name in ("default", "parent_child", "sentence_window"):
        (batch,) = chunk_batches([document(LONG)], CHUNKERS[name], max_chars=30, overlap_chars=0)
        for size in (1, 100, 100_000):
            others = list(
                chunk_batches([document(LONG)], CHUNKERS[name], max_chars=30, overlap_chars=0, rows_per_batch=size)
            )
            assert [done for other in others for done in other.documents] == batch.documents
        assert rows_digest(batch.rows) == batch.documents[0].rows_digest


def test_the_digest_changes_with_every_column() -> None:
    (batch,) = chunk_batches([document("# A\none, two.\n# B\nthree, four.")], CHUNKERS["parent_child"])
    rows = batch.rows.to_pylist()
    digests = {batch.documents[0].rows_digest}
    for name in CHUNK_SCHEMA.names:
        for position in range(2):
            changed = [dict(row) for row in rows]
            value = changed[position][name]
            changed[position][name] = value + 1 if isinstance(value, int) else f"{value}x"
            digests.add(rows_digest(pa.Table.from_pylist(changed, CHUNK_SCHEMA)))
    assert len(digests) == 1 + 2 * len(CHUNK_SCHEMA.names)


def test_the_digest_does_not_depend_on_how_a_dictionary_is_made() -> None:
    # Both sections have the same text, so that the window stands twice in the dictionary that the cutter makes.
    (batch,) = chunk_batches(
        [document("# A\none, two.\n# A\none, two.")], CHUNKERS["parent_child"], max_chars=9, overlap_chars=0
    )
    assert batch.rows.column("window_text").dictionary.to_pylist().count("# A\none, two.") == 2
    again = pa.Table.from_pylist(batch.rows.to_pylist(), CHUNK_SCHEMA)
    assert again["window_text"].chunk(0).dictionary.to_pylist() == ["# A\none, two."]
    assert rows_digest(again) == batch.documents[0].rows_digest


def test_documents_of_one_batch_have_the_digests_they_have_alone() -> None:
    documents = [document("same text", "d"), document("", "e"), document("same text\nand more", "d", title="T")]
    alone = [next(iter(chunk_batches([d]))).documents[0].rows_digest for d in documents]
    (batch,) = chunk_batches(documents)
    assert [done.rows_digest for done in batch.documents] == alone
    assert len(set(alone)) == 3


def test_windows_of_many_rows_make_smaller_batches() -> None:
    text = "# A\n" + "A sentence of the section, again.\n" * 200
    documents = [document(text, f"d{n}") for n in range(40)]
    batches = list(chunk_batches(documents, CHUNKERS["parent_child"], max_chars=40, overlap_chars=0))
    assert len(batches) == 3  # each document shows 6.7 KB in 200 rows
    assert len(list(chunk_batches(documents, CHUNKERS["layout"], max_chars=40, overlap_chars=0))) == 1


def test_text_cannot_move_from_one_row_to_the_next_under_the_same_digest() -> None:
    (batch,) = chunk_batches([document("ab\ncd")], max_chars=2, overlap_chars=0)
    rows = batch.rows.to_pylist()
    moved = [{**rows[0], "text": "abc"}, {**rows[1], "text": "d"}]
    assert rows_digest(pa.Table.from_pylist(moved, CHUNK_SCHEMA)) != batch.documents[0].rows_digest


def test_a_column_that_came_later_changes_a_digest_only_where_it_holds_something() -> None:
    (batch,) = chunk_batches([DocumentInput("One.\n\nTwo.", DocumentMeta("a.txt", title="T"), [1])])
    (row,) = batch.rows.to_pylist()

    def digest(path: str) -> str:
        return rows_digest(pa.Table.from_pylist([{**row, "heading_path": path}], CHUNK_SCHEMA))

    # As it was before there was such a column.
    assert digest("") == "3bf49fb72d4974dcd527d8b4f71de2ad351535afd70e11d6132c39b41779ea30"
    assert len({digest(""), digest("A > B"), digest("A > C")}) == 3
