"""One chunk by name, from any version: judged by what is stored and by the rules of this moment (SPEC 6.7)."""

from __future__ import annotations

from pathlib import Path

from ragspine_assets.chunking import DocumentMeta, chunk_document
from ragspine_assets.documents.metadata import load_metadata_table
from ragspine_assets.policy import SensitivityPolicy
from ragspine_assets.serving.citations import cited_chunk
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conftest import Pipeline

FALCON = SensitivityPolicy(restricted_keywords=("project falcon",))


def test_a_phrase_that_two_chunks_share_closes_both(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "store.duckdb")
    text = "The harbour opens at six and it is called project\nFalcon by those who know of it, and by nobody else."
    chunks = chunk_document(text, DocumentMeta("a.txt"), max_chars=60, overlap_chars=0)
    assert not any("project falcon" in chunk.text.casefold() for chunk in chunks)
    store.replace_doc_chunks("a.txt", chunks)
    store.replace_doc_chunks("a.txt", chunk_document("Nothing of it is left.", DocumentMeta("a.txt")))
    for seq in range(len(chunks)):
        assert cited_chunk(store, f"a.txt@v1#c{seq}") is not None
        assert cited_chunk(store, f"a.txt@v1#c{seq}", policy=FALCON) is None
    assert cited_chunk(store, "a.txt@v2#c0", policy=FALCON) is not None


def test_what_the_document_says_now_and_its_row_close_old_versions_too(pipeline: Pipeline) -> None:
    pipeline.write({"a.txt": "The first version."})
    pipeline.run()
    pipeline.write({"a.txt": "This is project falcon."})
    pipeline.run()
    old = "a.txt@v1#c0"
    assert cited_chunk(pipeline.store, old) is not None
    assert cited_chunk(pipeline.store, old, policy=FALCON) is None
    for cell, shown in (("RESTRICTED", False), ("PUBLIC", True)):
        row = load_metadata_table(f"doc_id,sensitivity\na.txt,{cell}\n".encode())
        found = cited_chunk(pipeline.store, old, policy=SensitivityPolicy(), metadata=row)
        assert (found is not None) == shown
