import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.policy import Sensitivity, is_known_label, is_restricted, most_restricted, read_label

LOWER = ("PUBLIC", "INTERNAL", "CONFIDENTIAL")
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
SPACES = " \t\n\u00a0\u3000\u2003"


def _wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) for char in text)


def _spells_a_lower_label(raw: str) -> bool:
    """Say the rule of SPEC 1.8 once more, character by character, to judge the code by."""
    plain = ""
    for char in raw:
        if char in ZERO_WIDTH:
            continue
        code = ord(char)
        plain += chr(code - 0xFEE0) if 0xFF21 <= code <= 0xFF5A else char
    return plain.strip().upper() in LOWER


WORDS = [
    *LOWER * 4,
    "RESTRICTED",
    "SECRET",
    "riservato",
    "公开",
    "内部",
    "社外秘",
    "öffentlich",
    "none",
    "nan",
    "0",
    "",
]


def _random_label(random: Random) -> str:
    word = random.choice(WORDS) if random.random() < 0.9 else f"{random.choice(WORDS)} {random.choice(WORDS)}"
    word = random.choice([str.upper, str.lower, str.title, str.swapcase, str])(word)
    if random.random() < 0.3 and word.isascii() and word.isalpha():
        word = _wide(word)
    letters = list(word)
    for _ in range(random.randrange(3)):
        noise = random.choice(ZERO_WIDTH * 6 + "xX.0\u0301\u0430") if random.random() < 0.8 else random.choice(SPACES)
        letters.insert(random.randrange(len(letters) + 1), noise)
    if letters and random.random() < 0.1:
        letters.pop(random.randrange(len(letters)))
    ends = SPACES + ZERO_WIDTH
    return "".join(
        [*random.choices(ends, k=random.randrange(3)), *letters, *random.choices(ends, k=random.randrange(3))]
    )


def test_of_10000_random_labels_only_spellings_of_the_three_lower_ones_read_lower():
    random = Random(18)
    labels = [_random_label(random) for _ in range(10_000)]
    assert [raw for raw in labels if is_restricted(raw) is _spells_a_lower_label(raw)] == []
    assert 2000 < sum(map(_spells_a_lower_label, labels)) < 8000


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=14))
def test_any_other_text_reads_restricted(raw):
    assert is_restricted(raw) is not _spells_a_lower_label(raw)


@pytest.mark.parametrize("raw", [None, "", "  ", 0, 1, 1.5, float("nan"), b"PUBLIC", ["PUBLIC"], object()])
def test_whatever_is_no_label_is_restricted(raw):
    assert read_label(raw) is Sensitivity.RESTRICTED
    assert not is_known_label(raw)


@pytest.mark.parametrize(
    "raw",
    ["РUBLIC", "PUBLIС", "PUBL1C", "P U B L I C", "PUBLIC.", "PÚBLIC", "PUBLI", "PUBLICPUBLIC", "INTERNAL/PUBLIC"],
)
def test_a_label_that_only_looks_like_a_lower_one_is_restricted(raw):
    assert is_restricted(raw)


@pytest.mark.parametrize(
    ("raw", "label"),
    [
        (" public\n", "PUBLIC"),
        ("Ｉｎｔｅｒｎａｌ", "INTERNAL"),
        ("confi\u200bdential", "CONFIDENTIAL"),
        ("\ufeffRestricted", "RESTRICTED"),
    ],
)
def test_case_width_zero_width_and_space_do_not_change_a_label(raw, label):
    assert read_label(raw) == label
    assert is_known_label(raw)


def test_labels_are_ordered_by_rank_and_not_by_spelling():
    assert sorted(["RESTRICTED", "CONFIDENTIAL", "PUBLIC", "INTERNAL"], key=read_label) == [*LOWER, "RESTRICTED"]
    assert Sensitivity.PUBLIC < Sensitivity.CONFIDENTIAL <= Sensitivity.CONFIDENTIAL
    assert Sensitivity.INTERNAL < "CONFIDENTIAL"
    assert "CONFIDENTIAL" > Sensitivity.INTERNAL  # noqa: SIM300
    assert Sensitivity.CONFIDENTIAL < "a word that is no label"


def test_the_most_restricted_of_labels_counts_an_unknown_one_as_restricted():
    assert most_restricted("PUBLIC", "CONFIDENTIAL", "INTERNAL") is Sensitivity.CONFIDENTIAL
    assert most_restricted("PUBLIC", "") is Sensitivity.RESTRICTED


def test_no_label_at_all_is_restricted():
    assert most_restricted() is Sensitivity.RESTRICTED


def test_a_label_is_a_plain_string_to_others():
    assert f"{Sensitivity.INTERNAL}" == "INTERNAL"
    assert pickle.loads(pickle.dumps(Sensitivity.INTERNAL)) is Sensitivity.INTERNAL


def test_comparing_in_upper_case_only_would_let_a_secret_through():
    """Take the guard away: the naive comparison fails the property that the lattice holds."""
    naive = [
        raw
        for raw in (" RESTRICTED", "SECRET", "", "Restricted\u200b", "ＲＥＳＴＲＩＣＴＥＤ")
        if raw.upper() != "RESTRICTED"
    ]
    assert len(naive) == 5
    assert all(is_restricted(raw) for raw in naive)
