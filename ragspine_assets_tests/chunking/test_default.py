"""The built-in rule (SPEC 2.3)."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings

from ragspine_assets.chunking import Chunk, DefaultChunker, DocumentMeta, chunk_document
from ragspine_assets.documents.normalise import paragraphs

from .rule import TEXTS, sizes

META = DocumentMeta("d")


def texts(text: str, max_chars: int, overlap_chars: int = 0) -> list[str]:
    return [chunk.text for chunk in chunk_document(text, META, max_chars=max_chars, overlap_chars=overlap_chars)]


def test_paragraphs_are_gathered_while_they_fit_together() -> None:
    assert texts("aaa\nbbb\nccc", 7) == ["aaa\nbbb", "ccc"]


def test_trailing_paragraphs_that_fit_the_overlap_are_carried_over() -> None:
    assert texts("aaaa\nbb\ncc\ndddd", 10, 5) == ["aaaa\nbb\ncc", "bb\ncc\ndddd"]


def test_carried_paragraphs_are_dropped_from_the_front_until_the_next_fits() -> None:
    assert texts("aa\nbb\ncc\ndddddd", 9, 8) == ["aa\nbb\ncc", "cc\ndddddd"]


def test_carried_paragraphs_alone_never_make_a_chunk() -> None:
    assert texts("aaaa\nbb", 7, 6) == ["aaaa\nbb"]


def test_nothing_is_carried_across_a_paragraph_that_is_too_long() -> None:
    assert texts("ab\n" + "x" * 12 + "\ncd", 10, 5) == ["ab", "x" * 10, "xx", "cd"]


def test_a_long_paragraph_is_cut_at_sentence_ends_and_its_pieces_are_not_trimmed() -> None:
    assert texts("One two. Three four!? Five.", 14) == ["One two.", " Three four!?", " Five."]


def test_a_long_sentence_is_cut_every_max_chars_code_points() -> None:
    assert texts("x" * 23 + ". ab.", 10) == ["x" * 10, "x" * 10, "xxx. ab."]


def test_all_pieces_of_a_long_paragraph_have_its_number() -> None:
    chunks = chunk_document("a\n" + "b" * 25, META, max_chars=10, overlap_chars=0)
    assert [chunk.source_locator for chunk in chunks] == ["d#para1", "d#para2", "d#para2", "d#para2"]


def test_equal_paragraphs_have_different_chunks_and_locators() -> None:
    chunks = chunk_document("Note.\n\nOther.\n\nNote.", META, max_chars=6, overlap_chars=0)
    assert [(chunk.chunk_id, chunk.source_locator) for chunk in chunks] == [
        ("d#c0", "d#para1"),
        ("d#c1", "d#para2"),
        ("d#c2", "d#para3"),
    ]


def test_every_chunk_inherits_the_metadata_and_no_window() -> None:
    meta = DocumentMeta(
        "a/b.txt", "T", "topic", "E", "IT", "2025H1", "it", "CONFIDENTIAL", "2025-01-01", source_locator_prefix="deck!1"
    )
    (chunk,) = chunk_document("x\ny", meta)
    assert (chunk.title, chunk.topic, chunk.entity, chunk.geography) == ("T", "topic", "E", "IT")
    assert (chunk.period, chunk.language, chunk.sensitivity) == ("2025H1", "it", "CONFIDENTIAL")
    assert (chunk.valid_as_of, chunk.source_locator, chunk.doc_id) == ("2025-01-01", "deck!1#para1-2", "a/b.txt")
    assert (chunk.parent_id, chunk.heading, chunk.window_text, chunk.parent_locator) == ("", "", "", "")
    assert (chunk.page_start, chunk.page_end) == (0, 0)


def test_the_representation_of_a_chunk_holds_no_text_of_the_document() -> None:
    (chunk,) = chunk_document("secret words", DocumentMeta("d", title="secret title"))
    assert "secret" not in repr(chunk)


def test_a_chunk_is_a_frozen_value_like_one_made_by_hand() -> None:
    (chunk,) = chunk_document("x", META)
    by_hand = Chunk("d#c0", "d", 0, "x", "d#para1", 1, 1, char_end=1)
    assert type(chunk) is Chunk
    assert (chunk, hash(chunk), repr(chunk)) == (by_hand, hash(by_hand), repr(by_hand))
    assert pickle.loads(pickle.dumps(chunk)) == replace(chunk) == by_hand
    with pytest.raises(FrozenInstanceError):
        chunk.text = "y"  # type: ignore[misc]


def test_a_size_in_conflict_with_the_default_overlap_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"less than max_chars \(64\), not 80"):
        chunk_document("x", META, max_chars=64)


def gathered_one_by_one(text: str, max_chars: int, overlap_chars: int) -> list[str]:
    """SPEC 2.3 read literally, paragraph by paragraph."""
    done: list[str] = []
    held: list[str] = []
    fresh = 0
    for paragraph in paragraphs(text):
        if len(paragraph) > max_chars:
            if fresh:
                done.append("\n".join(held))
            held, fresh = [], 0
            done.extend(pieces_one_by_one(paragraph, max_chars))
            continue
        if fresh and len("\n".join([*held, paragraph])) > max_chars:
            done.append("\n".join(held))
            while held and len("\n".join(held)) > overlap_chars:
                held.pop(0)
            fresh = 0
        while held and not fresh and len("\n".join([*held, paragraph])) > max_chars:
            held.pop(0)
        held.append(paragraph)
        fresh += 1
    return [*done, "\n".join(held)] if fresh else done


def pieces_one_by_one(paragraph: str, max_chars: int) -> list[str]:
    sentences: list[str] = []
    for character in paragraph:
        ender = character in "。！？；.!?;"
        if sentences and (ender or sentences[-1][-1] not in "。！？；.!?;"):
            sentences[-1] += character
        else:
            sentences.append(character)
    parts = [sentence[i : i + max_chars] for sentence in sentences for i in range(0, len(sentence), max_chars)]
    pieces = [""]
    for part in parts:
        if len(pieces[-1]) + len(part) <= max_chars:
            pieces[-1] += part
        else:
            pieces.append(part)
    return [piece for piece in pieces if piece]


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, size=sizes())
def test_the_rule_read_literally_gives_the_same_chunks(text: str, size: tuple[int, int]) -> None:
    assert texts(text, *size) == gathered_one_by_one(text, *size)


@settings(max_examples=60, deadline=None)
@given(text=TEXTS, size=sizes())
def test_the_default_chunker_equals_chunk_document(text: str, size: tuple[int, int]) -> None:
    max_chars, overlap_chars = size
    assert DefaultChunker().chunk(text, META, max_chars=max_chars, overlap_chars=overlap_chars) == chunk_document(
        text, META, max_chars=max_chars, overlap_chars=overlap_chars
    )
