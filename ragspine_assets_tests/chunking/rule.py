"""The rule for chunks (SPEC 2.4) written down a second time, and texts to hold chunkers to it."""

from collections.abc import Sequence

from hypothesis import strategies as st

from ragspine_assets.chunking import (
    Chunk,
    Chunker,
    DefaultChunker,
    LayoutAwareChunker,
    ParentChildChunker,
    SentenceWindowChunker,
    StructureChunker,
    make_chunker,
)
from ragspine_assets.documents.normalise import paragraphs


def _made(spec: str) -> Chunker:
    chunker = make_chunker(spec)
    assert chunker is not None
    return chunker


CHUNKERS: dict[str, Chunker] = {
    "default": DefaultChunker(),
    "layout": LayoutAwareChunker(),
    "laws": _made("laws"),
    "qa": _made("qa"),
    "book": _made("book"),
    "parent_child": ParentChildChunker(),
    "parent_child, small windows": ParentChildChunker(max_window_chars=40),
    "sentence_window": SentenceWindowChunker(),
    "sentence_window, no neighbours": SentenceWindowChunker(window_size=0),
    "structure": StructureChunker(),
}


def assert_rule_holds(text: str, chunks: Sequence[Chunk], max_chars: int) -> None:
    """Assert SPEC 2.1 and 2.4 for the chunks of a text, from its paragraphs alone."""
    lines = paragraphs(text)
    canonical = "\n".join(lines)
    owner = [number for number, line in enumerate(lines, 1) for _ in range(len(line) + 1)]
    covered = 0
    previous = 0
    for seq, chunk in enumerate(chunks):
        assert chunk.seq == seq
        assert chunk.chunk_id == f"{chunk.doc_id}#c{seq}"
        assert chunk.text == canonical[chunk.char_start : chunk.char_end]
        assert 0 < len(chunk.text) <= max_chars
        assert chunk.char_start >= previous
        assert not any(map(_is_visible, canonical[covered : chunk.char_start]))
        quoted = [n for n in range(chunk.char_start, chunk.char_end) if canonical[n] != "\n"]
        assert (chunk.para_start, chunk.para_end) == (owner[quoted[0]], owner[quoted[-1]])
        span = f"{chunk.para_start}" if chunk.para_start == chunk.para_end else f"{chunk.para_start}-{chunk.para_end}"
        assert chunk.source_locator == f"{chunk.doc_id}#para{span}"
        previous = chunk.char_start
        covered = max(covered, chunk.char_end)
    assert not any(map(_is_visible, canonical[covered:]))


def assert_windows_hold(text: str, chunks: Sequence[Chunk]) -> None:
    """Assert that windows are the document's own text around their child, and parent spans name it (SPEC 2.6, 2.7)."""
    lines = paragraphs(text)
    canonical = "\n".join(lines)
    for chunk in chunks:
        if not chunk.window_text:
            assert chunk.parent_locator == ""
            continue
        assert chunk.text in chunk.window_text
        pieces = [chunk.window_text]
        if chunk.window_text not in canonical:
            # The header of a table stands before rows further down.
            header, delimiter, rows = chunk.window_text.split("\n", 2)
            pieces = [f"{header}\n{delimiter}", rows]
            assert canonical.index(pieces[0]) < canonical.index(rows)
        assert all(piece in canonical for piece in pieces)
        first, _, last = chunk.parent_locator.removeprefix(f"{chunk.doc_id}#para").partition("-")
        assert int(first) <= chunk.para_start <= chunk.para_end <= int(last or first)
        span = "\n".join(lines[int(first) - 1 : int(last or first)])
        assert all(piece in span for piece in pieces)


def _is_visible(character: str) -> bool:
    return not (character.isspace() or character in "\u200b\u200c\u200d\u200e\u200f\u2060\u00ad\ufeff")


_PIECES = st.sampled_from(
    [
        "\n", "\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", " ", "\t", "\u3000", "\u00a0", "\u200b",
        "\ufeff", "\x00", "\x1b", "\ud83d", "\ude00", "\ud83d\ude00", "e\u0301", "👨‍👩‍👧", "word ", "Two words. ", "3.14 ",
        "v1.2.3 ", "e.g. ", "J. Smith ", "中文。", "第三章 开头，", "第1条 ", "句子！”", "ภาษาไทย", "हिन्दी। ", "؟", "...", "!?", ";",
        "x" * 50, "0," * 20, "# H\n", "## H2\n", "Title\n===\n", "---\n", "```\n", "~~~\n", "    code\n", "<!--", "-->",
        "<div>\n", "- item\n", "1. item\n", "> quote\n", "Q: what", "What?", "\"", "”", ")", "| a | b |\n", "|---|---|\n", "Intro .... 3\n", "1.2 Scope\n",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(_PIECES, max_size=60).map("".join),
    st.text(st.characters(exclude_categories=()), max_size=200),
)
"""Arbitrary Unicode, and texts made of what chunkers stumble over."""


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    """Draw legal sizes: ``max_chars`` and ``overlap_chars``."""
    max_chars = draw(st.one_of(st.integers(1, 12), st.integers(1, 600)))
    return max_chars, draw(st.integers(0, max_chars - 1))
