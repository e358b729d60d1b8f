"""Stemming by language, an opt-in (SPEC 4.2)."""

from __future__ import annotations

from collections import Counter

import pytest

from ragspine_assets.index import analysis
from ragspine_assets.index.analysis import StemmingAnalyzer, make_analyzer
from ragspine_assets.retrieval import NarrativeIndex
from ragspine_assets_tests.index.test_tokens import counts_of
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
    terms = make_analyzer("stemmed").terms
    assert terms("attività", "it") == terms("attivita", "it")


def test_a_mark_that_makes_another_letter_is_seen_by_the_rules() -> None:
    terms = make_analyzer("stemmed").terms
    assert terms("новый", "ru") == terms("новая", "ru")


@pytest.mark.parametrize("language", ["en", "it", "ru", ""])
def test_many_texts_have_the_stems_that_each_of_them_has(language: str) -> None:
    analyzer = StemmingAnalyzer()
    texts = [ENGLISH, ITALIAN, CHINESE, "новая attività in C++", ""]
    tokens = analyzer.tokens(texts, language)
    assert counts_of(tokens) == [Counter(analyzer.terms(text, language)) for text in texts]


def test_one_foreign_document_changes_no_stem_of_the_others() -> None:
    reports = [chunk(ENGLISH, "a"), chunk("Many companies report on their country.", "b")]
    alone = NarrativeIndex(reports, analyzer="stemmed").retrieve("reports of companies")
    mixed = NarrativeIndex([*reports, chunk(CHINESE, "zh"), chunk(ITALIAN, "it")], analyzer="stemmed")
    assert ids(mixed.retrieve("reports of companies")) == ids(alone)
    assert {result.bm25_score for result in mixed.retrieve("companies")} == {
        result.bm25_score for result in mixed.retrieve("company")
    }


def test_scripts_without_spaces_keep_their_tokens() -> None:
    stemmed, plain = make_analyzer("stemmed"), make_analyzer("default")
    assert stemmed.terms(CHINESE, "en") == plain.terms(CHINESE, "")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"ragspine_assets\[stemming\]"):
        NarrativeIndex(analyzer="stemmed")
