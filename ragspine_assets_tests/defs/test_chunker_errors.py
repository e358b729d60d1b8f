"""A chunker that breaks the rules for chunks fails the step that calls it, with rule and document (SPEC 2.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import pytest

from ragspine_assets.chunking import Chunk, Chunker, DocumentMeta, chunk_document
from ragspine_assets.defs.assets.chunks import chunks
from ragspine_assets.defs.resources import ChunkerResource, StoreResource
from ragspine_assets_tests.conftest import Pipeline

CANARY = "Zanzibarquux"


@dataclass(frozen=True)
class LeavesOutTheEnd:
    """Cuts as we do, but for the last chunk of what says so."""

    def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 480, overlap_chars: int = 80) -> Sequence[Chunk]:
        made = chunk_document(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)
        return made[:-1] if "broken" in meta.doc_id or CANARY in meta.doc_id else made


class Selected(ChunkerResource):
    def make(self) -> Chunker | None:
        return LeavesOutTheEnd()  # pyright: ignore[reportReturnType]


def test_the_step_names_rule_document_and_what_to_do_and_all_other_documents_are_cut(
    pipeline: Pipeline, capfd: pytest.CaptureFixture[str]
) -> None:
    pipeline.write(
        {
            "broken.txt": "One.", "good.txt": "Two.", f"{CANARY}.txt": "Three.",
            "metadata.csv": f"doc_id,sensitivity\n{CANARY}.txt,RESTRICTED\n",
        }
    )  # fmt: skip
    pipeline.intake()
    store = StoreResource(path=str(pipeline.store.path))
    with pytest.raises(Exception, match=r"broke the rules for chunks \(SPEC 2\.4\) on 2 documents\.") as caught:
        chunks.body(dg.build_asset_context(), store, Selected())
    store.open().close()
    said = str(caught.value)
    assert "LeavesOutTheEnd" in said
    assert "RAGSPINE_CHUNKER" in said
    assert "broken.txt: " in said or "doc:" in said
    assert CANARY not in said + "".join(capfd.readouterr())
    assert pipeline.rows("SELECT DISTINCT doc_id FROM staged_chunk") == [("good.txt",)]
