"""Stemming by language (SPEC 4.2, 10.3)."""

from __future__ import annotations

from collections import Counter

import pytest

from ragspine_assets.index.analysis import StemmingAnalyzer, make_analyzer
from ragspine_assets.index.languages import ReadDocument
from ragspine_assets.retrieval import NarrativeIndex
from ragspine_assets_tests.index.test_tokens import counts_of
from ragspine_assets_tests.retrieval.doubles import chunk, ids

ENGLISH = "The companies were reporting their earnings to the regulators in several countries."
ITALIAN = "Le società hanno comunicato gli utili alle autorità di diversi paesi europei."
CHINESE = "公司向监管机构报告了太阳能收益。"


def languages(*texts: str, stated: str = "", folder: str = "") -> list[str]:
    return StemmingAnalyzer().languages([ReadDocument(folder, stated, [text]) for text in texts])


def test_words_are_as_they_are_where_that_is_asked_for() -> None:
    assert NarrativeIndex([chunk(ENGLISH, language="en")], analyzer="plain").retrieve("company report") == []
    assert len(NarrativeIndex([chunk(ENGLISH, language="en")]).retrieve("company report")) == 1


def test_endings_are_removed_by_the_language_of_the_metadata() -> None:
    index = NarrativeIndex([chunk(ENGLISH, language="en-GB")], analyzer="stemmed")
    assert len(index.retrieve("company report")) == 1


def test_a_language_that_is_not_given_is_told_by_its_function_words() -> None:
    assert languages(ENGLISH, ITALIAN) == ["en", "it"]
    assert languages("", "  ") == ["", ""]


def test_a_short_text_is_in_the_language_of_its_folder() -> None:
    documents = [ReadDocument("it", "", [ITALIAN])] * 3 + [ReadDocument("en", "", [ENGLISH])] * 9
    short = [ReadDocument("it", "", ["Manutenzione pompe"]), ReadDocument("en", "", ["Pump maintenance"])]
    assert StemmingAnalyzer().languages([*short, *documents])[:2] == ["it", "en"]


def test_a_name_in_another_language_makes_no_language() -> None:
    assert languages(*[ENGLISH] * 20, "Der Spiegel reported the earnings of the companies.")[-1] == "en"
    assert languages("国家图书馆的 De La Cruz 在联赛中打进了两个球并且获得了最佳球员", CHINESE) == ["", ""]


def test_the_given_language_wins() -> None:
    assert languages(ENGLISH, stated="it-IT") == ["it"]
    assert languages(ENGLISH, stated="nb") == ["no"]
    assert languages(ENGLISH, stated="zh") == [""]


def test_a_minority_in_another_language_does_not_make_a_common_word_rare() -> None:
    english = [chunk("The reports were read.", f"en{n}") for n in range(40)] + [chunk("The zebra of the zoo.", "zebra")]
    foreign = [chunk("Reports dalla società e dei paesi.", "it", language="it")]
    found = NarrativeIndex([*english, *foreign]).retrieve("reports zebra", top_k=50)
    assert found[0].chunk.doc_id == "zebra"


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
    texts = [
        ENGLISH,
        ITALIAN,
        CHINESE,
        "новая attività in C++",
        "The L-2231 has 40 kW,\nChunkStore",
        "",
        "🚀 mainte-\nnance",
    ]
    tokens = analyzer.tokens(texts, language)
    assert counts_of(tokens) == [
        Counter([*analyzer.terms(text, language), *analyzer.forms(text, language)]) for text in texts
    ]
    assert tokens.lengths().tolist() == [len(analyzer.terms(text, language)) for text in texts]


def test_one_foreign_document_changes_no_stem_of_the_others() -> None:
    reports = [chunk(ENGLISH, "a"), chunk("Many companies report on their country.", "b")]
    alone = NarrativeIndex(reports, analyzer="stemmed").retrieve("reports of companies")
    mixed = NarrativeIndex([*reports, chunk(CHINESE, "zh"), chunk(ITALIAN, "it")], analyzer="stemmed")
    assert ids(mixed.retrieve("reports of companies")) == ids(alone)
    assert {result.bm25_score for result in mixed.retrieve("companies")} == {
        result.bm25_score for result in mixed.retrieve("company")
    }


def test_scripts_without_spaces_keep_their_tokens() -> None:
    stemmed, plain = make_analyzer("stemmed"), make_analyzer("plain")
    assert stemmed.terms(CHINESE, "en") == plain.terms(CHINESE, "")


def test_half_of_a_surrogate_pair_in_a_question_breaks_nothing() -> None:
    analyzer = make_analyzer("stemmed")
    for question in ("\ud83d", "é\ud83d", "cranes \udfff"):
        for languages in ([], ["en"], ["it", "ja"]):
            analyzer.query(question, languages)
    assert analyzer.query("cranes \udfff", ["en"]) == analyzer.query("cranes", ["en"])
