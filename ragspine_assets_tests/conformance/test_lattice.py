"""Promise: none but the three lower labels passes either exit, however a label is written (SPEC 1.8, 4.5, 4.6)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ragspine_assets.policy import lattice
from ragspine_assets.retrieval import (
    NarrativeIndex,
    NarrativeIndexRetriever,
    listwise_rerank,
    narrative_link,
    rerank,
)
from ragspine_assets.store import StoredChunk
from ragspine_assets_tests.retrieval.doubles import LeakingIndex, RecordingJudge, chunk, hit

LOWER = ["PUBLIC", "INTERNAL", "CONFIDENTIAL"]
OTHERS = [
    "RESTRICTED", "SECRET", "TOP SECRET", "PRIVATE", "PUBLICATION", "NOT PUBLIC", "PUBLIC INTERNAL", "PUBLI", "P",
    "INTERNE", "INTERNO", "PUBBLICO", "RISERVATO", "CONFIDENZIALE", "ÖFFENTLICH", "VERTRAULICH", "公开", "内部", "机密",
    "公開", "極秘", "ПУБЛИЧНЫЙ", "РUBLIC", "PUВLIC", "عام", "0", "1", "NONE", "NULL", "NAN", "TRUE", "-", "?", "PUBLIC,",
    "PUBLIC/INTERNAL", "PUB LIC", "PUBLIC\nRESTRICTED", "RESTRICTED\nPUBLIC", "INTERNAL-RESTRICTED", "🔒",
]  # fmt: skip
NOTHING = ["", " ", "\t\n", "\u200b", "\ufeff", "\u3000", None]
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
SPACES = " \t\n\u00a0\u3000\u2009"


def _disguised(label: str, chance: random.Random) -> str:
    """Write a label in another case and width, with zero-width characters in it and spaces around it."""
    letters = [letter.lower() if chance.random() < 0.4 else letter for letter in label]
    if chance.random() < 0.5:
        letters = [
            chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" and chance.random() < 0.5 else letter
            for letter in letters
        ]
    if chance.random() < 0.5:
        letters = [letter + (chance.choice(ZERO_WIDTH) if chance.random() < 0.3 else "") for letter in letters]
    around = ["".join(chance.choices(SPACES + ZERO_WIDTH, k=chance.randrange(3))) for _ in range(2)]
    return around[0] + "".join(letters) + around[1]


def _labels(number: int) -> list[tuple[object, bool]]:
    """Return labels, each with whether it is a lower one: known by how it was made, not by reading it."""
    chance = random.Random(20240501)
    made: list[tuple[object, bool]] = []
    for _ in range(number):
        kind = chance.random()
        if kind < 0.4:
            made.append((_disguised(chance.choice(LOWER), chance), True))
        elif kind < 0.8:
            made.append((_disguised(chance.choice(OTHERS), chance), False))
        elif kind < 0.9:
            made.append((chance.choice(NOTHING), False))
        else:
            junk = "".join(
                chr(chance.choice([chance.randrange(32, 127), chance.randrange(0xA1, 0x3000)])) for _ in range(9)
            )
            made.append((junk, False))
    return made


LABELS = _labels(10_000)
CHUNKS = [chunk(f"solar {n}", f"d{n:05}", sensitivity=label) for n, (label, _) in enumerate(LABELS)]  # pyright: ignore[reportArgumentType]
EXPECTED = [c.chunk_id for c, (_, lower) in zip(CHUNKS, LABELS, strict=True) if lower]


def assert_only_lower_labels_pass(chunks: Sequence[StoredChunk]) -> None:
    """The promise, for both exits and for the index behind them."""
    snippets = NarrativeIndexRetriever(LeakingIndex(chunks)).retrieve("solar", top_k=len(chunks))
    assert [snippet["chunk_id"] for snippet in snippets] == EXPECTED
    judge = RecordingJudge()
    listwise_rerank("solar", [hit(c) for c in chunks], judge)
    assert judge.seen[1:] == [c.text for c in chunks if c.chunk_id in set(EXPECTED)]
    found = NarrativeIndex(chunks).retrieve("solar", top_k=len(chunks))
    assert [result.chunk.chunk_id for result in found] == EXPECTED


def test_none_but_the_three_lower_labels_passes() -> None:
    assert 3_000 < len(EXPECTED) < 5_000
    assert_only_lower_labels_pass(CHUNKS)


def test_comparing_upper_case_spellings_would_let_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(label: object) -> lattice.Sensitivity:
        restricted = str(label).upper() == "RESTRICTED"
        return lattice.Sensitivity.RESTRICTED if restricted else lattice.Sensitivity.INTERNAL

    monkeypatch.setattr(narrative_link, "read_label", leaking)
    with pytest.raises(AssertionError):
        assert_only_lower_labels_pass(CHUNKS)


def test_a_first_exit_that_compares_spellings_would_let_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerank, "is_restricted", lambda label: str(label).upper() == "RESTRICTED")
    with pytest.raises(AssertionError):
        assert_only_lower_labels_pass(CHUNKS)
