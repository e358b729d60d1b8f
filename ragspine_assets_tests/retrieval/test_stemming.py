"""Stemming by language, an opt-in (SPEC 4.2)."""

from __future__ import annotations

import sys

import pytest

from ragspine_assets.retrieval import NarrativeIndex
from ragspine_assets.retrieval.analysis import StemmingAnalyzer, make_analyzer
from ragspine_assets_tests.retrieval.doubles import chunk, ids

pytest.importorskip("Stemmer")
pytest.importorskip("py3langid")

ENGLISH = "The companies were reporting their earnings to the regulators in several countries."
ITALIAN = "Le società hanno comunicato gli utili alle autorità di diversi paesi europei."
CHINESE = "公司向监管机构报告了太阳能收益。"


def test_off_by_default() -> None:
    assert NarrativeIndex([chunk(ENGLISH, language="en")]).retrieve("company report") == []


def test_endings_are_removed_by_the_language_of_the_metadata() -> None:
    index = NarrativeIndex([chunk(ENGLISH, language="en-GB")], analyzer="stemmed")
    assert len(index.retrieve("company report")) == 1


def test_a_language_that_is_not_given_is_detected() -> None:
    analyzer = StemmingAnalyzer()
    assert [analyzer.language("", [text]) for text in (ENGLISH, ITALIAN, CHINESE, "", "  ")] == ["en", "it", "", "", ""]


def test_the_given_language_wins_over_the_detected_one() -> None:
    analyzer = StemmingAnalyzer()
    assert analyzer.language("it", [ENGLISH]) == "it"
    assert analyzer.language("nb", [ENGLISH]) == "no"
    assert analyzer.language("zh", [ENGLISH]) == ""


def test_a_query_finds_documents_of_every_language() -> None:
    chunks = [chunk(ENGLISH, "en"), chunk(ITALIAN, "it"), chunk(CHINESE, "zh")]
    index = NarrativeIndex(chunks, analyzer="stemmed")
    assert ids(index.retrieve("country")) == ["en#c0"]
    assert ids(index.retrieve("autorita europea")) == ["it#c0"]
    assert ids(index.retrieve("太阳能")) == ["zh#c0"]


def test_an_accent_left_out_is_no_obstacle() -> None:
    terms = make_analyzer("stemmed").document_terms
    assert terms("attività", "it") == terms("attivita", "it")


def test_a_mark_that_makes_another_letter_is_seen_by_the_rules() -> None:
    terms = make_analyzer("stemmed").document_terms
    assert terms("новый", "ru") == terms("новая", "ru")


def test_scripts_without_spaces_keep_their_tokens() -> None:
    stemmed, plain = make_analyzer("stemmed"), make_analyzer("default")
    assert stemmed.document_terms(CHINESE, "en") == plain.document_terms(CHINESE, "")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(ImportError, match=r"ragspine_assets\[stemming\]"):
        NarrativeIndex(analyzer="stemmed")
