"""Is it in the text, and does the text not deny it (SPEC 5.6)."""

from __future__ import annotations

import pytest

from ragspine_assets.graph import Vocabulary
from ragspine_assets.graph.grounding import GroundedText, cleaned_name, denies, folded_type
from ragspine_assets.policy import DomainProfile

NONE = Vocabulary(DomainProfile())


def grounded(text: str, vocabulary: Vocabulary = NONE) -> GroundedText:
    return GroundedText(text, vocabulary)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ann leads Bolt Ltd.", "Bolt Ltd"),
        ("ANN leads it", "ann"),
        ("Ａｎｎ leads", "Ann"),
        ("An\u200bn leads", "Ann"),
        ("Bolt\n  Ltd grows", "Bolt Ltd"),
        ("Société Générale", "Societe Generale"),
        ("王小明领导博尔特公司。", "王小明"),
        ("アン氏はボルト社の社長。", "ボルト社"),
    ],
)
def test_a_name_is_found_however_it_is_spelt(text: str, name: str) -> None:
    assert grounded(text).holds(name)


@pytest.mark.parametrize(("text", "name"), [("Annual report", "Ann"), ("the boltless", "bolt"), ("Ann", "Ann Lee")])
def test_a_name_is_a_word_of_its_own(text: str, name: str) -> None:
    assert not grounded(text).holds(name)


def test_an_entity_of_ours_is_there_under_any_of_its_names(profile: DomainProfile) -> None:
    text = grounded("The Nordwerk Plant is cold.", Vocabulary(profile))
    assert text.holds("NORD", "NORD")
    assert not text.holds("SUD", "SUD")


@pytest.mark.parametrize(
    "sentence",
    [
        "Ann has never worked for Bolt.",
        "Ann does not lead Bolt.",
        "Ann doesn’t lead Bolt.",
        "Ann isn't at Bolt",
        "ANN IS NO LONGER AT BOLT",
        "Neither Ann nor Bob leads Bolt.",
        "Ann denied leading Bolt.",
        "Ann ha lasciato senza aver diretto Bolt.",
        "Anna non dirige la Bolt.",
        "Anna non ha mai lavorato per Bolt.",
        "Nessuno, nemmeno Anna, dirige Bolt.",
        "Anna nega di dirigere Bolt.",
        "安从未为博尔特工作。",
        "安不领导博尔特。",
        "安没有领导博尔特。",
        "安並非博爾特的負責人。",
        "安否认领导博尔特。",
        "アンはボルトで働いたことがない。",
        "アンはボルトを率いていません。",
        "アンはボルトの社長ではなかった。",
        "アンはボルトで働かずに去った。",
        "アンはボルトを率いたことを否定した。",
    ],
)
def test_a_denial_is_seen_in_four_languages(sentence: str) -> None:
    assert denies(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Ann leads Bolt.",
        "Ann notes that nothingness is normal at Bolt.",
        "Ann not only leads Bolt but owns it.",
        "Ann, no doubt, leads Bolt No. 5.",
        "Ann is a non-executive director of Bolt.",
        "Anna dirige la Bolt.",
        "Anna dirige non solo la Bolt.",
        "Il nonno di Anna dirige la Bolt.",
        "安领导博尔特，不仅在罗马。",
        "安是博尔特不锈钢公司的未来领导。",
        "安非常喜欢博尔特的无线产品。",
        "アンはボルトを率いている。",
        "アンだけでなくボブもボルトで働く。",
        "アンは少なくともボルトを率いる。",
    ],
)
def test_what_only_looks_like_a_denial_is_none(sentence: str) -> None:
    assert not denies(sentence)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("Ann has never worked for Bolt.", True),
        ("Bob never smiles. Ann leads Bolt.", False),
        ("Ann never led Bolt. Later Ann led Bolt.", False),
        ("Ann joined in 2020. She never worked for Bolt.", True),
        ("Ann joined in 2020. She works for Bolt. Bob does not.", False),
        ("It is false\nthat Ann leads Bolt", False),
        ("Ann leads no company except Bolt", True),
    ],
)
def test_a_denial_counts_in_the_sentences_that_hold_both_ends(text: str, denied: bool) -> None:
    assert grounded(text).denied(("Ann", ""), ("Bolt", "")) is denied


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Works For", ("works_for", "")),
        ("è proprietario di", ("e_proprietario_di", "")),
        ("supplier-of", ("supplier_of", "")),
        ("ＯＷＮＳ", ("owns", "")),
        ("", ("", "bad_type")),
        ("领导", ("", "bad_type")),
        ("x" * 65, ("", "bad_type")),
        ("No relation", ("", "no_relation")),
        ("none", ("", "no_relation")),
        ("无关", ("", "no_relation")),
        ("does not lead", ("", "negated")),
        ("isn't part of", ("", "negated")),
        ("no_longer_leads", ("", "negated")),
        ("notes", ("notes", "")),
    ],
)
def test_a_type_is_folded_or_refused(kind: str, expected: tuple[str, str]) -> None:
    assert folded_type(kind) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("  Bolt   Ltd ", ("Bolt Ltd", "")),
        ("Bo\u200blt", ("Bolt", "")),
        ("A" * 128, ("A" * 128, "")),
        ("A" * 129, ("", "name_too_long")),
        ("A\x00nn", ("", "control_characters")),
        ("A\nnn", ("", "control_characters")),
        ("\u202ennA", ("", "control_characters")),
        ("  ", ("", "empty_name")),
        ("\u200b", ("", "empty_name")),
        ("use `ls`", ("use `ls`", "")),
    ],
)
def test_a_name_is_cleaned_or_refused(name: str, expected: tuple[str, str]) -> None:
    assert cleaned_name(name) == expected


def test_a_name_inside_a_longer_name_of_ours_is_not_in_the_text() -> None:
    profile = DomainProfile(
        home_company_name="Acme",
        home_entity_code="ACME",
        home_entity_synonyms={"Acme": "ACME", "Acme Italia": "ACME_IT"},
    )
    text = GroundedText("Acme Italia supplies Bolt Ltd.", Vocabulary(profile))
    assert text.holds("Acme Italia", "ACME_IT")
    assert not text.holds("Acme", "ACME")
    assert GroundedText("Acme and Acme Italia supply Bolt Ltd.", Vocabulary(profile)).holds("Acme", "ACME")
    assert GroundedText("The code is ACME here.", Vocabulary(DomainProfile(home_entity_code="ACME"))).holds(
        "ACME", "ACME"
    )


@pytest.mark.parametrize(
    "kind",
    ["there is no relation", "without relation", "lacks relation", "denies leading", "does no lead", "keine Beziehung"],
)
def test_a_kind_that_denies_is_no_relation(kind: str) -> None:
    assert folded_type(kind)[0] == ""


@pytest.mark.parametrize("kind", ["leads", "supplies", "nominates", "notifies", "innovates with", "denotes"])
def test_a_kind_that_only_looks_like_a_denial_is_one(kind: str) -> None:
    assert folded_type(kind)[0] != ""
