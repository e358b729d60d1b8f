"""One sentence per chunk (SPEC 2.7)."""

import pytest

from ragspine_assets.chunking import Chunk, DocumentMeta, SentenceWindowChunker

META = DocumentMeta("d")


def cut(text: str, window_size: int = 3, max_chars: int = 200) -> list[Chunk]:
    return SentenceWindowChunker(window_size).chunk(text, META, max_chars=max_chars, overlap_chars=0)


def sentences(text: str, max_chars: int = 200) -> list[str]:
    return [chunk.text for chunk in cut(text, max_chars=max_chars)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four; five", ["One.", "Two!", "Three?", "Four;", "five"]),
        ("第一句话在这里。第二句话也在。第三句！", ["第一句话在这里。", "第二句话也在。", "第三句！"]),
        ("他说：“走吧。”然后离开。", ["他说：“走吧。”", "然后离开。"]),
        ("「行こう。」と言った。", ["「行こう。」", "と言った。"]),
        ("यह एक है। यह दो है। هل هذا؟ نعم.", ["यह एक है।", "यह दो है।", "هل هذا؟", "نعم."]),
        ("یہ ایک ہے۔ دوسرا॥ ខ្មែរ។ မြန်မာ။ ግዕዝ።", ["یہ ایک ہے۔", "دوسرا॥", "ខ្មែរ។", "မြန်မာ။", "ግዕዝ።"]),
        ("Pi is 3.14 today. Use v1.2.3 or 10.0.0.1 now.", ["Pi is 3.14 today.", "Use v1.2.3 or 10.0.0.1 now."]),
        ("J. Smith, e.g. this one, i.e. him. Next.", ["J. Smith, e.g. this one, i.e. him.", "Next."]),
        ("See example.org, file.txt, etc., and more. End.", ["See example.org, file.txt, etc., and more.", "End."]),
        ('He said "Go." Then (he left.) Done.', ['He said "Go."', "Then (he left.)", "Done."]),
        ('他说。"走吧。快点。"然后', ["他说。", '"走吧。', '快点。"', "然后"]),
        ("Really?! Yes... no...yes.", ["Really?!", "Yes...", "no...yes."]),
        ("1. First item. Second.\n2. Next.", ["1. First item.", "Second.", "2. Next."]),
        ("a line\nanother line", ["a line", "another line"]),
        ("这是A.然后", ["这是A.", "然后"]),
        ("It is 5. Then 6.", ["It is 5.", "Then 6."]),
    ],
)
def test_a_chunk_is_one_sentence(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_window_shows_the_sentences_around_as_they_stand_in_the_text() -> None:
    chunks = cut("A1 is.  A2 is.\nB1 is. B2 is.\n\nC1 is.", window_size=1)
    assert [(c.text, c.window_text, c.parent_locator) for c in chunks] == [
        ("A1 is.", "A1 is.  A2 is.", "d#para1"),
        ("A2 is.", "A1 is.  A2 is.\nB1 is.", "d#para1-2"),
        ("B1 is.", "A2 is.\nB1 is. B2 is.", "d#para1-2"),
        ("B2 is.", "B1 is. B2 is.\nC1 is.", "d#para2-3"),
        ("C1 is.", "B2 is.\nC1 is.", "d#para2-3"),
    ]


def test_by_default_three_sentences_stand_on_each_side() -> None:
    chunks = cut(" ".join(f"This is number {n:02}!" for n in range(12)))
    assert chunks[5].window_text == " ".join(f"This is number {n:02}!" for n in range(2, 9))


def test_without_neighbours_the_window_is_the_sentence() -> None:
    assert [(c.text, c.window_text) for c in cut("One. Two.", window_size=0)] == [("One.", "One."), ("Two.", "Two.")]


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window_size must be at least 0, not -1"):
        SentenceWindowChunker(window_size=-1)


def test_a_long_sentence_is_cut_and_its_windows_stay_bounded() -> None:
    chunks = cut("x" * 1_000 + ". Next.", max_chars=100)
    assert [len(c.text) for c in chunks] == [100] * 10 + [1, 5]
    assert max(len(c.window_text) for c in chunks) <= 7 * 100


def test_a_sentence_window_names_no_section() -> None:
    assert {(c.parent_id, c.heading) for c in cut("One. Two.")} == {("", "")}


def test_a_quote_that_ends_its_paragraph_opens_nothing() -> None:
    for size in (1, 2, 3, 480):
        for chunk in SentenceWindowChunker().chunk('中文。"\nab', DocumentMeta("d"), max_chars=size, overlap_chars=0):
            assert "\n" not in chunk.text
            assert chunk.para_start == (2 if chunk.text[0] in "ab" else 1)
