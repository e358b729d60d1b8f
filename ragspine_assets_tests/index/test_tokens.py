"""Tokens (SPEC 4.2)."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.index import tokens as module
from ragspine_assets.index.tokens import Tokens, in_batches, run_token, tokens_of
from ragspine_assets.retrieval import tokenize

HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
PIECES = [
    "c", "C", "c++", "C#", "f#", ".net", ".NET", "net", "x", "1", "+", "#", ".", " ", "\n", "\t", "-", "\0", "\x1c", "é", "e\u0301",
    "\u0301", "ß", "İ", "ﬁ", "½", "Ａ", "＃", "用", "写", "カ", "ｶﾞ", "\u3099", "ー", "々", "한", "\u1100\u1161", "ไ", "ท", "ำ", "မ",
    "𠮷", "हि", "हिन्दी", "ж", "ё", "مَ", "\u00ad", "\u200d", "\ufe0f", "\U000e0100", "\u115f", "\ud800", "\udc00", "😀", "\u2028",
]  # fmt: skip
"""What tokens begin, end and are taken together at."""

ASCII = st.characters(min_codepoint=0x20, max_codepoint=0x7E).filter(str.isalnum)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Solar power 2024", ["solar", "power", "2024"]),
        ("don't a_b x-y", ["don", "t", "a", "b", "x", "y"]),
        ("太阳能", ["太", "阳", "能", "太阳", "阳能"]),
        ("iPhone15用", ["iphone15", "用"]),
        ("日本abc中文1x", ["日", "本", "日本", "abc", "中", "文", "中文", "1x"]),
        ("", []),
        ("... !?。、", []),
    ],
)
def test_words_and_runs_keep_the_order_of_the_text(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize(
    "text",
    ["C++ and C", "c#を使う", "C# code", "F# code", ".NET code", "objective-c++", "Ｃ＋＋", "用.NET写", "naïve C++"],
)
def test_names_of_programming_languages_survive(text: str) -> None:
    assert {"c++", "c#", "f#", ".net"} & set(tokenize(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("asp.net", ["asp", "net"]),
        (".network", ["network"]),
        ("c#minor", ["c", "minor"]),
        ("caffè.net", ["caffe", "net"]),
    ],
)
def test_a_word_that_only_looks_like_one_does_not(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Résumé", ["resume"]),
        ("re\u0301sume\u0301", ["resume"]),
        ("ＡＢＣ１２３", ["abc123"]),
        ("Straße", ["strasse"]),
        ("İstanbul", ["istanbul"]),
        ("Ὀδυσσεύς", ["οδυσσευσ"]),
        ("Привет, ёж", ["привет", "еж"]),
        ("مَرْحَبًا", ["مرحبا"]),
        ("שָׁלוֹם", ["שלום"]),
        ("co\u00adoperate", ["cooperate"]),
        ("ﬁne", ["fine"]),
    ],
)
def test_words_lose_case_width_and_accents(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "বাংলা", "ދިވެހި"])
def test_vowel_signs_stay_inside_a_word(word: str) -> None:
    assert tokenize(word) == [unicodedata.normalize("NFC", word)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("カタカナ", ["カ", "タ", "カ", "ナ", "カタ", "タカ", "カナ"]),
        ("ｶﾞｰﾙ", ["ガ", "ー", "ル", "ガー", "ール"]),
        ("人々", ["人", "々", "人々"]),
        ("食べ", ["食", "べ", "食べ"]),
        ("한국어", ["한", "국", "어", "한국", "국어"]),
        ("𠮷野", ["𠮷", "野", "𠮷野"]),
        ("葛\U000e0100城", ["葛", "城", "葛城"]),
    ],
)
def test_scripts_without_spaces_give_characters_and_pairs(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize("text", ["ภาษาไทย", "ພາສາລາວ", "ភាសាខ្មែរ", "မြန်မာ"])
def test_a_part_of_a_run_without_spaces_is_found_in_it(text: str) -> None:
    assert set(tokenize(text[:3])) <= set(tokenize(text))


@pytest.mark.parametrize(
    "text", ["カタカナ", "한국어", "ภาษาไทย", "Привет", "مرحبا", "résumé", "ＡＢＣ１２３", "𠮷野家", "ｶﾞｰﾙ", "½"]
)
def test_a_text_and_its_compatibility_form_have_the_same_tokens(text: str) -> None:
    assert tokenize(text)
    assert tokenize(text) == tokenize(unicodedata.normalize("NFKC", text))


@given(st.lists(st.one_of(st.text(ASCII, min_size=1), st.text(HAN, min_size=1)), max_size=8))
def test_ascii_words_and_han_runs_follow_the_old_rule(parts: list[str]) -> None:
    expected: list[str] = []
    for part in parts:
        if part.isascii():
            expected.append(part.lower())
        else:
            expected += [*part, *(part[at : at + 2] for at in range(len(part) - 1))]
    assert tokenize(" ".join(parts)) == expected


@given(st.text())
def test_any_text_gives_tokens_that_give_themselves(text: str) -> None:
    for token in tokenize(text):
        assert token
        assert token in tokenize(token)


def counts_of(tokens: Tokens) -> list[Counter[str]]:
    counts: list[Counter[str]] = [Counter() for _ in range(tokens.size)]
    characters = map(run_token, tokens.characters.tolist())
    for terms, within in ((tokens.words, tokens.words_in), (characters, tokens.characters_in)):
        for term, place in zip(terms, within.tolist(), strict=True):
            counts[place][term] += 1
    return counts


@given(st.lists(st.text(st.characters()) | st.lists(st.sampled_from(PIECES), max_size=9).map("".join), max_size=5))
def test_many_texts_have_the_tokens_that_each_of_them_has(texts: list[str]) -> None:
    tokens = tokens_of(texts)
    assert counts_of(tokens) == [Counter(tokenize(text)) for text in texts]
    assert tokens.lengths().tolist() == [len(tokenize(text)) for text in texts]
    assert counts_of(Tokens.of([tokenize(text) for text in texts])) == counts_of(tokens)


def test_texts_come_in_batches_of_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 6)
    assert list(in_batches(["abcdefgh", "ab", "c", "", "d"])) == [["abcdefgh"], ["ab", "c", ""], ["d"]]
    assert list(in_batches([])) == []


def test_every_character_is_the_same_token_among_many_texts() -> None:
    every = [f"a{chr(point)}b" for point in (*range(0x20000), *range(0xE0000, 0xE0200))]
    assert all(
        counts == Counter(tokenize(text)) for text, counts in zip(every, counts_of(tokens_of(every)), strict=True)
    )


def test_no_word_is_a_character_or_a_pair_of_a_run() -> None:
    every = tokens_of([chr(point) for point in range(0x110000)])
    assert len(tokens_of(every.words).characters) == 0
