"""Promise: every chunk says which document and which paragraphs it comes from (SPEC 2.4), whoever made it.

Each registered implementation is run through the seam; the reverse proof hands the promise to stand-ins that lose the
provenance, and sees both the promise fail on them and the seam refuse them.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragspine_assets.chunking import Chunk, Chunker, ChunkerError, DocumentMeta, chunk_document, make_chunker
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.documents.normalise import paragraphs

REGISTERED = [
    "none",
    "default",
    "recursive",
    "structural",
    "layout",
    "laws",
    "qa",
    "book",
    "parent_child",
    "sentence_window",
    "structure",
]
META = DocumentMeta("reports/annual.md", entity="NORD", sensitivity="CONFIDENTIAL", source_locator_prefix="annual.md!1")
TEXT = "\n\n".join(
    [
        "# Annual report", "The year was good. Sales rose by 3.5 per cent; costs did not.", "  Indented remark.  ",
        "## Outlook", "第一条 本公司将继续发展。第二句话在这里！", "Q: What comes next?", "A: More of the same, we hope.",
        "# Annual report", "The year was good. Sales rose by 3.5 per cent; costs did not.", "A line without an end " * 40,
    ]
)  # fmt: skip


def assert_provenance(chunks: list[Chunk], text: str, meta: DocumentMeta) -> None:
    """Assert the promise from the text's paragraphs alone."""
    lines = paragraphs(text)
    assert chunks
    quoted: set[int] = set()
    for seq, chunk in enumerate(chunks):
        assert (chunk.doc_id, chunk.chunk_id, chunk.seq) == (meta.doc_id, f"{meta.doc_id}#c{seq}", seq)
        assert (chunk.entity, chunk.sensitivity) == (meta.entity, meta.sensitivity)
        own = "\n".join(lines[chunk.para_start - 1 : chunk.para_end])
        assert chunk.text
        assert chunk.text in own
        span = range(chunk.para_start, chunk.para_end + 1)
        assert len(span) == chunk.text.count("\n") + 1
        named = f"para{span[0]}" if len(span) == 1 else f"para{span[0]}-{span[-1]}"
        assert chunk.source_locator == f"annual.md!1#{named}"
        if chunk.window_text:
            first, _, last = chunk.parent_locator.removeprefix("annual.md!1#para").partition("-")
            assert chunk.text in chunk.window_text
            assert chunk.window_text in "\n".join(lines[int(first) - 1 : int(last or first)])
        quoted.update(span)
    assert quoted == set(range(1, len(lines) + 1))


@pytest.mark.parametrize("spec", REGISTERED)
@pytest.mark.parametrize("markup", ["plain", "markdown"])
@pytest.mark.parametrize(("max_chars", "overlap_chars"), [(480, 80), (60, 20), (12, 0), (1, 0)])
def test_every_chunk_names_its_document_and_paragraphs(
    spec: str, markup: str, max_chars: int, overlap_chars: int
) -> None:
    meta = replace(META, markup=markup)
    chunks = cut_document(TEXT, meta, make_chunker(spec), max_chars=max_chars, overlap_chars=overlap_chars)
    assert_provenance(chunks, TEXT, meta)


def test_every_registered_name_is_tried() -> None:
    with pytest.raises(ValueError, match="unknown chunker") as caught:
        make_chunker("no such chunker")
    listed = str(caught.value).split("Built in: ")[1].split(";")[0].split(", ")
    tried = {type(make_chunker(spec)) for spec in REGISTERED}
    assert {type(make_chunker(name)) for name in listed} == tried


def lossy(change: Callable[[Chunk], Chunk]) -> Chunker:
    class Lossy:
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 480, overlap_chars: int = 80) -> list[Chunk]:
            return [change(c) for c in chunk_document(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)]

    return Lossy()


STAMPED = {
    "another document": lambda c: replace(c, doc_id="other", chunk_id=f"other#c{c.seq}"),
    "no locator": lambda c: replace(c, source_locator=""),
    "wrong paragraphs": lambda c: replace(c, para_start=1, para_end=1),
    "a lower label": lambda c: replace(c, sensitivity="PUBLIC"),
}
REFUSED = {
    "invented text": lambda c: replace(c, text=c.text + " and more"),
    "an invented window": lambda c: replace(c, window_text="From somewhere else."),
}


@pytest.mark.parametrize("change", {**STAMPED, **REFUSED}.values(), ids={**STAMPED, **REFUSED}.keys())
def test_the_promise_fails_on_a_chunker_that_loses_provenance(change: Callable[[Chunk], Chunk]) -> None:
    with pytest.raises(AssertionError):
        assert_provenance(lossy(change).chunk(TEXT, META), TEXT, META)


@pytest.mark.parametrize("change", STAMPED.values(), ids=STAMPED.keys())
def test_the_seam_restores_what_it_stamps(change: Callable[[Chunk], Chunk]) -> None:
    assert_provenance(cut_document(TEXT, META, lossy(change)), TEXT, META)


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_the_seam_refuses_what_the_document_does_not_bear_out(change: Callable[[Chunk], Chunk]) -> None:
    with pytest.raises(ChunkerError):
        cut_document(TEXT, META, lossy(change))
