"""Names of the profile in text: whole words, longest first, outsiders never ours."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.graph import Vocabulary, build_relation_graph
from ragspine_assets.graph.values import ENTITY
from ragspine_assets.policy import DomainProfile
from ragspine_assets.policy.profile import DimensionSpec

PROFILE = DomainProfile(
    home_company_name="Acme",
    home_entity_code="ACM",
    home_entity_synonyms={
        "acme": "ACM",
        "Acme China": "ACC",
        "中国": "ACC",
        "アクメ": "ACJ",
        "삼화": "SAM",
        "Завод": "ZAV",
        "bay": "BAY",
        "3M": "MMM",
        "new bay": "NEW",
        "bay area": "AREA",
        "acme ch": "ACH",
        "société": "SOC",
    },
    external_entities={"中国竞安": "Jingan", "acme rivals": "Rivals", "jingan": "Jingan"},
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(PROFILE)


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Acme rose.", ["ACM"]),
        ("ＡＣＭＥ and ac\u200bme", ["ACM"]),
        ("acme\u00a0 \n china", ["ACC"]),
        ("Acme China and Acme", ["ACC", "ACM"]),
        ("acmeology, megacme, acme2, 2acme", []),
        ("Acme's, (acme), acme-based, acme_x", ["ACM"]),
        ("ebay", []),
        ("the bay.", ["BAY"]),
        ("3M and 13M", ["MMM"]),
        ("13M", []),
        ("我们在中国的工厂", ["ACC"]),
        ("我们Acme公司", ["ACM"]),
        ("アクメの工場", ["ACJ"]),
        ("삼화는 성장했다", ["SAM"]),
        ("삼화물산", []),
        ("대삼화", []),
        ("Acme는 성장했다", ["ACM"]),
        ("Завод вырос", ["ZAV"]),
        ("Заводы выросли", []),
        ("La Societe\u0301 cresce", ["SOC"]),
        ("", []),
        ("nothing here", []),
    ],
)
def test_names_are_found_as_whole_words_where_the_script_has_them(
    vocabulary: Vocabulary, text: str, entities: list[str]
) -> None:
    assert list(vocabulary.entities_in(text)) == entities


def test_the_longest_name_wins(vocabulary: Vocabulary) -> None:
    assert vocabulary.entities_in("Acme China") == ("ACC",)


def test_a_longer_name_that_is_no_whole_word_does_not_hide_a_shorter_one(vocabulary: Vocabulary) -> None:
    assert vocabulary.entities_in("acme chapter") == ("ACM",)
    assert vocabulary.entities_in("renew bay area") == ("AREA",)


def test_the_name_of_an_outsider_is_not_ours(vocabulary: Vocabulary) -> None:
    assert vocabulary.entities_in("中国竞安上涨") == ()
    assert vocabulary.entities_in("Acme Rivals fell") == ()
    assert vocabulary.entities_in("Acme rivals Acme") == ("ACM",)


def test_a_name_that_stands_for_two_things_names_neither_and_is_counted() -> None:
    vocabulary = Vocabulary(
        DomainProfile(
            home_entity_synonyms={"Twin": "A", "twin": "B", "dual": "A", "ours": "A"},
            external_entities={"DUAL": "Outsider"},
        )
    )
    assert vocabulary.entities_in("twin and dual and ours") == ("A",)
    assert vocabulary.ambiguous == 2
    assert vocabulary.resolve_entity("TWIN") == ("entity", "TWIN")


def test_names_in_metadata_become_codes_and_unknown_ones_stay_as_given(vocabulary: Vocabulary) -> None:
    assert vocabulary.resolve_entity("ACC") == ("entity", "ACC")
    assert vocabulary.resolve_entity(" acme  CHINA ") == ("entity", "ACC")
    assert vocabulary.resolve_entity("Jingan") == ("external_entity", "Jingan")
    assert vocabulary.resolve_entity("中国竞安") == ("external_entity", "Jingan")
    assert vocabulary.resolve_entity("Somebody Else") == ("entity", "Somebody Else")


def test_the_gate_finds_outsiders_in_names(vocabulary: Vocabulary) -> None:
    assert vocabulary.names_external("the J-i-n-g-a-n deal")
    assert not vocabulary.names_external("Acme China")


def test_the_digest_follows_the_names_and_not_their_order() -> None:
    one = Vocabulary(DomainProfile(home_entity_synonyms={"a": "A", "b": "B"}))
    same = Vocabulary(DomainProfile(home_entity_synonyms={"B": "B", "a": "A"}))
    other = Vocabulary(DomainProfile(home_entity_synonyms={"a": "A", "b": "A"}))
    assert one.digest == same.digest != other.digest


def test_a_profile_without_names_finds_nothing() -> None:
    assert Vocabulary(DomainProfile()).entities_in("Acme") == ()


@given(st.text(alphabet="abc ", max_size=60), st.sets(st.text(alphabet="abc", min_size=1, max_size=3), max_size=6))
def test_without_overlaps_the_names_found_are_the_words_of_the_text(text: str, names: set[str]) -> None:
    vocabulary = Vocabulary(DomainProfile(home_entity_synonyms={name: name.upper() for name in names}))
    assert set(vocabulary.entities_in(text)) == {word.upper() for word in text.split() if word in names}


@pytest.mark.parametrize("name", ["Polar", "north works", "Nordwerk GmbH", "Südwerk"])
def test_every_name_of_an_entity_is_found_in_text_and_stands_for_its_code(name: str) -> None:
    profile = DomainProfile(
        home_entity_labels={"NORD": "Nordwerk GmbH"},
        dimensions=(
            DimensionSpec(
                name="entity",
                label="",
                synonyms={"Polar": "NORD", "north works": "NORD"},
                labels={"SUD": "Südwerk"},
            ),
        ),
    )
    code = "SUD" if name == "Südwerk" else "NORD"
    vocabulary = Vocabulary(profile)
    assert vocabulary.entities_in(f"Sales of {name} rose.") == (code,)
    assert vocabulary.known_entity(name) == code
    assert (ENTITY, code) in {(node.type, node.id) for node in build_relation_graph(profile).nodes()}


def test_a_long_run_of_hangul_takes_time_in_proportion_to_its_length():
    vocabulary = Vocabulary(DomainProfile(home_entity_synonyms={"가": "GA"}))

    def seconds(size: int) -> float:
        best = 9e9
        for _ in range(3):
            started = time.process_time()
            vocabulary.entities_in("가" * size)
            best = min(best, time.process_time() - started)
        return best

    seconds(1_000)
    assert seconds(40_000) < max(4 * 2.5 * seconds(10_000), 0.1)
