import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragspine_assets.policy import fold_text, fold_with_offsets

texts = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="ab ÀéñßİŁœﬁ\u0301\u200b\u00ad\u00a0\n\t\u2028", max_size=20),
    st.text(alphabet="がかガカﾊﾟ\u3099\u309a\u309b\u30fc\uff9e\uff9f力口 ", max_size=12),
    st.text(alphabet="한글\u1100\u1161\u11a8\u11a9\u0301 ", max_size=12),
    st.text(alphabet="हिन्दीक्षก็ำ\u0301\u093c\u200d a", max_size=12),
    st.text(alphabet="НнВвКкТтМмЗзΝνΙιΥυΗηᴋĸᏴꮃ", max_size=12),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Globex", "ＧＬＯＢＥＸ"),
        ("globex", "Gl\u043ebex"),
        ("globex", "GLО\u200bВЕХ"),
        ("globex", "Glo\u0301b\u0336ex"),
        ("globex", "Gløbex"),
        ("strictly private", "Strictly\u00a0 \n Private"),
        ("strasse", "Straße"),
        ("fine", "ﬁne"),
        ("don't", "don\u2019t"),
        ("a-b", "a\u2013b"),
        ("ガク", "ｶﾞｸ"),
        ("ガク", "カ\u3099ク"),
        ("が", "か\u309b"),
        ("データ", "デ一夕"),
        ("入口", "入ロ"),
        ("한국", unicodedata.normalize("NFD", "한국")),
        ("каталог", "KATAЛOГ"),
        ("葛", "葛\U000e0100"),
    ],
)
def test_spellings_of_one_word_fold_to_one_text(one, other):
    assert fold_text(one) == fold_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10", "lo"),
        ("かき", "がき"),
        ("ハン", "パン"),
        ("हिन्दी", "हन्द"),
        ("กา", "กำ"),
        ("ab", "a b"),
        ("нефть", "нафть"),
    ],
)
def test_different_words_stay_different(one, other):
    assert fold_text(one) != fold_text(other)


@pytest.mark.parametrize("word", ["НЕФТЬ", "ΝΙΚΟΣ", "ΥΓΕΙΑ", "Ｗｏｒｄ", "ÅNGSTRÖM", "ДОКУМЕНТ", "ᏣᎳᎩ"])
def test_a_word_folds_the_same_in_upper_and_lower_case(word):
    assert fold_text(word) == fold_text(word.lower())


@settings(max_examples=1500, deadline=None, database=None)
@given(texts)
@example("\ud800a\udfff")
@example("\u0f71\u0f72\u0f80")
def test_folding_twice_is_folding_once(text):
    assert fold_text(fold_text(text)) == fold_text(text)


@settings(max_examples=1000, deadline=None, database=None)
@given(texts)
def test_the_form_a_text_comes_in_makes_no_difference(text):
    assert fold_text(unicodedata.normalize("NFD", text)) == fold_text(unicodedata.normalize("NFC", text))


@settings(max_examples=1500, deadline=None, database=None)
@given(texts)
def test_offsets_lead_from_every_folded_character_to_its_source(text):
    folded, offsets = fold_with_offsets(text)
    assert folded == fold_text(text)
    assert len(offsets) == len(folded) + 1
    assert offsets == sorted(offsets)
    assert all(0 <= offset < len(text) for offset in offsets[:-1])
    assert offsets[-1] <= len(text)


def test_offsets_cut_a_disguised_word_out_of_its_text():
    text = "we  like G\u200blo\u0301bex\u00ad , and others"
    folded, offsets = fold_with_offsets(text)
    start = folded.index("globex")
    end = start + len("globex")
    assert text[offsets[start] : max(offsets[end], offsets[end - 1] + 1)] == "G\u200blo\u0301bex\u00ad"


def test_folded_text_has_single_spaces_and_none_at_its_ends():
    assert fold_text("\u3000 a\r\n\t b\u2028c \x00") == "a b c"


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\u0301", "\n\n"])
def test_a_text_of_nothing_folds_to_nothing(text):
    assert fold_text(text) == ""
    assert fold_with_offsets(text)[0] == ""


@pytest.mark.parametrize(
    "unit", ["Plain English words. ", "Perché l\u2019analisi è già qui. ", "机密文件在这里。", "हिन्दी में "]
)
def test_folding_takes_time_in_proportion_to_the_text(unit):
    def seconds(text: str) -> float:
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            fold_text(text)
            best = min(best, time.process_time() - start)
        return best

    text = unit * 20_000
    seconds(text)
    assert seconds(text * 4) < 4 * 2.4 * max(seconds(text), 1e-3)
