"""The seam holds any chunker to the rule (SPEC 2.4)."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings

from ragspine_assets.chunking import Chunk, Chunker, ChunkerError, DocumentMeta, chunk_document
from ragspine_assets.chunking.enforcement import DocumentInput, chunk_batches, cut_document
from ragspine_assets_tests.chunking.rule import CHUNKERS, TEXTS, assert_rule_holds, assert_windows_hold, sizes

TEXT = "First paragraph here.\n\n  Second one.  \n\nThird one. It has two sentences."
META = DocumentMeta("d")
SECRET = "Codeword Bluebird"


@dataclass(frozen=True)
class Foreign:
    """A third party's chunker: the built-in one, with something done to its chunks."""

    change: Callable[[list[Chunk]], Iterable[object]]

    def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 480, overlap_chars: int = 80) -> list[Chunk]:
        return list(self.change(chunk_document(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)))  # type: ignore[arg-type]


def each(**changes: object) -> Foreign:
    return Foreign(lambda chunks: [replace(chunk, **changes) for chunk in chunks])  # type: ignore[arg-type]


def cut(chunker: Chunker, text: str = TEXT, meta: DocumentMeta = META, max_chars: int = 25) -> list[Chunk]:
    return cut_document(text, meta, chunker, max_chars=max_chars, overlap_chars=0)


def test_a_foreign_chunker_that_keeps_the_rule_gives_what_it_decided() -> None:
    assert cut(Foreign(lambda chunks: chunks)) == chunk_document(TEXT, META, max_chars=25, overlap_chars=0)


def test_ids_metadata_label_and_pages_are_stamped_whatever_the_chunker_says() -> None:
    forged = each(
        chunk_id="other#c9", doc_id="other", seq=7, source_locator="other#para1", title="forged", entity="forged",
        sensitivity="PUBLIC", page_start=99, page_end=99, para_start=99, para_end=99, valid_as_of="forged",
    )  # fmt: skip
    meta = DocumentMeta("d", title="T", entity="E", sensitivity="RESTRICTED", valid_as_of="2025")
    chunks = cut_document(TEXT, meta, forged, max_chars=25, overlap_chars=0, page_starts=[1, 3])
    expected = chunk_document(TEXT, meta, max_chars=25, overlap_chars=0)
    pages = [(1, 1), (1, 1), (2, 2), (2, 2)]
    assert chunks == [
        replace(chunk, page_start=first, page_end=last) for chunk, (first, last) in zip(expected, pages, strict=True)
    ]


@pytest.mark.parametrize("label", ["", "geheim", "TOP SECRET", "restricted"])
def test_a_label_outside_the_lattice_is_stamped_as_restricted(label: str) -> None:
    assert {c.sensitivity for c in cut_document(TEXT, DocumentMeta("d", sensitivity=label))} == {"RESTRICTED"}


def test_a_label_in_another_spelling_is_stamped_as_the_lattice_spells_it() -> None:
    assert {c.sensitivity for c in cut_document(TEXT, DocumentMeta("d", sensitivity=" public "))} == {"PUBLIC"}


BREAKERS: dict[str, Foreign] = {
    "text that is not the document's": each(text=SECRET),
    "text in other letters": Foreign(lambda chunks: [replace(c, text=c.text.upper()) for c in chunks]),
    "shifted offsets": Foreign(lambda chunks: [replace(c, char_start=c.char_start + 1) for c in chunks]),
    "offsets outside": Foreign(lambda chunks: [replace(c, char_start=c.char_start - 500) for c in chunks]),
    "an empty chunk": Foreign(lambda chunks: [*chunks, replace(chunks[-1], text="", char_start=3, char_end=3)]),
    "a blank chunk without offsets": Foreign(lambda chunks: [*chunks, Chunk("", "", 0, " \n ", "", 0, 0)]),
    "a chunk left out at the start": Foreign(lambda chunks: chunks[1:]),
    "a chunk left out in the middle": Foreign(lambda chunks: [chunks[0], *chunks[2:]]),
    "a chunk left out at the end": Foreign(lambda chunks: chunks[:-1]),
    "no chunks": Foreign(lambda chunks: []),
    "chunks in the wrong order": Foreign(lambda chunks: chunks[::-1]),
    "a chunk that is too long": Foreign(
        lambda chunks: [replace(chunks[0], text=f"{chunks[0].text}\n{chunks[1].text}", char_end=chunks[1].char_end), *chunks[2:]]
    ),
    "things that are no chunks": Foreign(lambda chunks: [3]),
    "text that is no string": each(text=b"bytes"),
    "a window from elsewhere": each(window_text=SECRET),
    "a window around another chunk": Foreign(lambda chunks: [replace(c, window_text=chunks[0].text) for c in chunks]),
    "a parent that does not contain the chunk": each(parent_locator="d#para1"),
    "a parent beyond the document": each(parent_locator="d#para1-99"),
    "a parent that is no locator": each(parent_locator=SECRET),
    "a failure": Foreign(lambda chunks: [][1]),
}  # fmt: skip


@pytest.mark.parametrize("breaker", BREAKERS.values(), ids=BREAKERS.keys())
def test_a_chunker_that_breaks_the_rule_is_refused_by_name_and_without_text(breaker: Foreign) -> None:
    with pytest.raises(ChunkerError) as caught:
        cut(breaker)
    assert "'d'" in str(caught.value)
    assert caught.value.doc_id == "d"
    assert SECRET not in str(caught.value)
    assert "paragraph here" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_refusal_does_not_name_a_restricted_document() -> None:
    with pytest.raises(ChunkerError) as caught:
        cut(BREAKERS["no chunks"], meta=DocumentMeta("secret-name.txt", sensitivity="RESTRICTED"))
    assert "secret-name" not in str(caught.value)


def test_what_a_foreign_chunker_raises_comes_out_as_its_type_only() -> None:
    class Raising:
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
            raise KeyError(text)

    with pytest.raises(ChunkerError, match="the chunker raised KeyError") as caught:
        cut(Raising(), text=SECRET)
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_chunks_without_offsets_are_found_in_the_order_they_come() -> None:
    text = "Note.\n\nOther.\n\nNote.\nNote.\nEnd."

    def without_offsets(chunks: list[Chunk]) -> list[Chunk]:
        return [replace(chunk, char_start=0, char_end=0) for chunk in chunks]

    for max_chars, overlap_chars in ((6, 0), (12, 6), (100, 0)):
        expected = chunk_document(text, META, max_chars=max_chars, overlap_chars=overlap_chars)
        found = cut_document(text, META, Foreign(without_offsets), max_chars=max_chars, overlap_chars=overlap_chars)
        assert found == expected


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, size=sizes())
def test_slices_of_the_text_that_was_handed_over_are_read_as_slices_of_the_canonical_text(
    text: str, size: tuple[int, int]
) -> None:
    class Slicing:
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
            spans = [(start, min(start + max_chars, len(text))) for start in range(0, len(text), max_chars)]
            return [
                Chunk("", "", 0, text[start:end], "", 0, 0, char_start=start, char_end=end)
                for start, end in spans
                if any(c.strip() and c not in "\u200b\ufeff" for c in text[start:end])
            ]

    max_chars, overlap_chars = size
    # Text that repeats itself may be found too early, and is then refused; what is not refused keeps the rule.
    with suppress(ChunkerError):
        chunks = cut_document(text, META, Slicing(), max_chars=max_chars, overlap_chars=overlap_chars)
        assert_rule_holds(text, chunks, max_chars)


def test_a_foreign_splitter_of_raw_text_works() -> None:
    class Raw:
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
            middle = text.index("Third")
            return [
                Chunk(
                    "",
                    "",
                    0,
                    text[:middle],
                    "",
                    0,
                    0,
                    char_end=middle,
                    window_text=text,
                    heading="Head\nrest",
                    parent_id="p",
                ),
                Chunk(
                    "",
                    "",
                    0,
                    text[middle:],
                    "",
                    0,
                    0,
                    char_start=middle,
                    char_end=len(text),
                    parent_locator="x#para2-3",
                ),
            ]

    chunks = cut(Raw(), max_chars=60)
    assert [c.text for c in chunks] == ["First paragraph here.\nSecond one.", "Third one. It has two sentences."]
    assert [c.source_locator for c in chunks] == ["d#para1-2", "d#para3"]
    assert [c.parent_locator for c in chunks] == ["d#para1-3", "d#para2-3"]
    assert [(c.heading, c.parent_id) for c in chunks] == [("Head", "d#s0"), ("", "")]
    assert_windows_hold(TEXT, chunks[:1])


def test_an_override_of_a_built_in_chunker_is_called_and_held_to_the_rule() -> None:
    class Leaving(type(CHUNKERS["layout"])):
        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 480, overlap_chars: int = 80) -> list[Chunk]:
            return super().chunk(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)[1:]

    with pytest.raises(ChunkerError, match="left out text"):
        cut(Leaving())


@pytest.mark.parametrize("text", ["", TEXT])
def test_illegal_sizes_are_refused_before_the_chunker_is_called(text: str) -> None:
    for sizes_ in ({"max_chars": 0, "overlap_chars": 0}, {"max_chars": 5, "overlap_chars": 5}):
        with pytest.raises(ValueError, match="_chars"):
            cut_document(text, META, Foreign(lambda chunks: chunks), **sizes_)
        with pytest.raises(ValueError, match="_chars"):
            chunk_batches([DocumentInput(text, META)], **sizes_)


def test_what_is_no_chunker_is_refused() -> None:
    with pytest.raises(TypeError, match="int is no chunker"):
        cut_document(TEXT, META, 3)  # type: ignore[arg-type]


def test_none_means_the_built_in_rule() -> None:
    assert cut_document(TEXT, META) == chunk_document(TEXT, META)


def test_a_paragraph_lies_on_the_page_where_it_starts() -> None:
    text = "a\nb\nc\nd"
    chunks = cut_document(text, META, max_chars=3, overlap_chars=0, page_starts=[1, 1, 2, 5])
    assert [(c.text, c.page_start, c.page_end) for c in chunks] == [("a\nb", 2, 3), ("c\nd", 3, 3)]
    assert {(c.page_start, c.page_end) for c in cut_document(text, META)} == {(0, 0)}


def test_a_lone_surrogate_in_metadata_is_repaired_like_text():
    meta = DocumentMeta("a.txt", title="half \ud83d of a pair", topic="\ud83d\ude00")
    (chunk,) = cut_document("One sentence.", meta)
    assert (chunk.title, chunk.topic) == ("half \ufffd of a pair", "\U0001f600")
    (batch,) = chunk_batches([DocumentInput("One sentence.", meta)])
    assert batch.rows.column("title").to_pylist() == ["half \ufffd of a pair"]
