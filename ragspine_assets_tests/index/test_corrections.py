"""Words that nothing is found by are corrected by one edit, from the words that whoever asks may see (SPEC 10.3)."""

from __future__ import annotations

import pytest

from ragspine_assets.chunking.chunk import DocumentMeta
from ragspine_assets.retrieval import NarrativeIndex, NarrativeIndexRetriever

NOISE = (
    "The annual report describes revenue and staff numbers.",
    "Der Schrank steht neben der Bedienungsanleitung.",
    "Il manuale descrive la cassetta degli attrezzi.",
    "Le rapport annuel parle du personnel.",
    "Склад находится рядом со зданием.",
)


def answers(texts: dict[str, str], query: str, label: str = "CONFIDENTIAL", **filters: str) -> list[dict[str, object]]:
    index = NarrativeIndex()
    for name, text in [*texts.items(), *((f"noise{place}", text) for place, text in enumerate(NOISE))]:
        language = {"de": "de", "it": "it", "fr": "fr", "ru": "ru"}.get(name[:2], "en")
        closed = name.removeprefix("closed")
        sensitivity = "PUBLIC" if closed == name else "CONFIDENTIAL"
        topic = "law" if name == "law" else "pumps"
        meta = DocumentMeta(doc_id=name, title=name, language=language, sensitivity=sensitivity, topic=topic)
        index.ingest(text, meta)
    return NarrativeIndexRetriever(index, max_label=label).retrieve(query, filters=filters)


@pytest.mark.parametrize(
    ("name", "text", "query"),
    [
        ("en", "The maintenance of the pump is due in March.", "mantenance"),
        ("en", "The maintenance of the pump is due in March.", "maintenanxe plan"),
        ("en", "The receipt is kept for ten years.", "reciept"),
        ("en", "Lubrication of bearings needs grease.", "lubricaton"),
        ("en", "Calibrated gauges are in the cabinet.", "callibrated"),
        ("en", "Pumps are greased on Monday.", "pmups"),
        ("en", "The warehouse is closed at night.", "qarehouse"),
        ("de", "Die Wartung der Anlage ist im März fällig.", "Wartugn"),
        ("de", "Die Genehmigung gilt für zwei Jahre.", "Genemigung"),
        ("de", "Die Kündigung muss schriftlich erfolgen.", "Kündigugn"),
        ("it", "La manutenzione della pompa è annuale.", "manutenzone"),
        ("it", "La sicurezza degli impianti viene verificata.", "sicureza"),
        ("fr", "Le remplacement du filtre est nécessaire.", "remplacemnt"),
        ("ru", "Обслуживание насоса проводится ежегодно.", "обслужвание"),
    ],
)
def test_a_mistyped_word_finds_what_it_was_meant_to(name: str, text: str, query: str) -> None:
    first, *_ = answers({name: text}, query)
    assert first["doc_id"] == name
    assert isinstance(told := first["corrected"], dict)
    assert query.split()[0].casefold() in told


def test_a_word_that_is_found_is_left_alone_and_nothing_is_said_of_it() -> None:
    found = answers({"lamp": "A lamp stands here.", "damp": "A damp wall stands here."}, "lamp")
    assert [one["doc_id"] for one in found] == ["lamp"]
    assert all("corrected" not in one for one in found)


def test_other_words_score_as_they_did_beside_a_corrected_one() -> None:
    texts = {"en": "Grease the bearings on Monday."}
    (alone,) = answers(texts, "bearings")
    (beside,) = answers(texts, "bearings xqzwvut")
    assert beside["scores"] == alone["scores"]


@pytest.mark.parametrize("query", ["2232", "L-2232", "kat", "mnt", "電源器具", "xqzwvut"])
def test_numbers_short_words_and_words_without_a_neighbour_are_not_corrected(query: str) -> None:
    found = answers({"en": "Part 2231 of L-2231 is a cat on a mat."}, query)
    assert all("corrected" not in one for one in found)


def test_words_written_apart_that_are_found_as_one_are_not_corrected() -> None:
    found = answers({"en": "The warehouse is closed.", "other": "Ware of whose make?"}, "warehou se")
    assert all("corrected" not in one for one in found)


def test_only_words_of_visible_documents_correct_and_only_those_keep_from_being_corrected() -> None:
    texts = {"closed": "The bribery was found.", "en": "The brewery was sold, and library cards."}
    assert answers(texts, "bribary", label="PUBLIC") == []
    assert answers(texts, "bribary")[0]["doc_id"] == "closed"
    (told,) = answers(
        {"closed": "The lightening was found.", "en": "The lightning struck."}, "lightening", label="PUBLIC"
    )
    assert told["doc_id"] == "en"


def test_a_filter_hides_words_as_a_label_does() -> None:
    texts = {"law": "The contract ends.", "en": "The contact is worn."}
    assert [one["doc_id"] for one in answers(texts, "contrakt", topic="pumps")] == []
    assert [one["doc_id"] for one in answers(texts, "contract", topic="pumps")] == ["en"]


def test_the_tokens_of_the_contract_are_not_corrected() -> None:
    index = NarrativeIndex(analyzer="plain")
    index.ingest("Pumps are greased.", DocumentMeta(doc_id="en", title="en", sensitivity="PUBLIC"))
    assert index.retrieve("pumsp") == []
