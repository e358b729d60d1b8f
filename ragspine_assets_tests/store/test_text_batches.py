"""Texts are read a group of documents at a time (SPEC 1.9)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.store import ChunkStore
from ragspine_assets.store.text_batches import WITHIN, in_groups, read_group
from ragspine_assets_tests.conftest import Pipeline


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), limit=st.integers(1, 12))
def test_groups_are_small_and_leave_nobody_out(sizes: list[int], limit: int) -> None:
    named = [(f"d{number:02}", size) for number, size in enumerate(sizes)]
    with ChunkStore(":memory:").connect() as connection:
        groups = [
            group.column(0).to_pylist()
            for group in in_groups(connection, named, f"FROM _group WHERE doc_id {WITHIN}", limit=limit)
        ]
    assert [doc_id for group in groups for doc_id in group] == [doc_id for doc_id, _ in named]
    size_of = dict(named)
    assert all(len(group) == 1 or sum(map(size_of.__getitem__, group)) <= limit for group in groups)


def test_what_lies_between_the_documents_of_a_group_is_not_read(pipeline: Pipeline) -> None:
    from ragspine_assets.audit.chunks import _CHUNKS, _WINDOWS

    pipeline.write({f"{number}.txt": f"Text {number}." for number in range(9)})
    pipeline.run()
    with pipeline.store.connect() as connection:
        connection.execute("UPDATE staged_chunk SET window_text = text")
        for query in (_CHUNKS, _WINDOWS):
            read = read_group(connection, ["8.txt", "0.txt"], query)
            assert sorted(read.column("doc_id").to_pylist()) == ["0.txt", "8.txt"]


def limit_of(store: ChunkStore) -> float:
    with store.connect() as connection:
        return float(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()[0])


def test_texts_larger_than_the_memory_of_the_store_are_stored_cut_proved_and_labelled_again(pipeline: Pipeline) -> None:
    from ragspine_assets.audit.chunks import audit_chunk_text
    from ragspine_assets.audit.raw_documents import audit_source_labels
    from ragspine_assets.policy import SensitivityPolicy

    small = ChunkStore(pipeline.store.path, memory_limit="100MB", threads=1)
    pipeline.store = small
    text = "\n".join(f"Line {number} of a long book about cranes and harbours." for number in range(40_000))
    pipeline.write({f"book{number}.txt": f"Book {number}.\n{text}" for number in range(60)})
    pipeline.run()
    assert small.count() > 60 * 4_000
    assert audit_chunk_text(small).passed
    # A table of texts is read in vectors of 2,048 values, which have to fit.
    assert limit_of(small) > 132 * 1.2
    pipeline.policy = SensitivityPolicy(restricted_keywords=("book 7.",))
    pipeline.run()
    assert audit_source_labels(small, pipeline.root, pipeline.policy).passed
    with small.connect() as connection:
        raised = connection.execute("SELECT doc_id FROM document WHERE sensitivity = 'RESTRICTED'").fetchall()
    assert raised == [("book7.txt",)]
