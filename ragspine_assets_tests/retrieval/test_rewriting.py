"""Query variants from a profile's synonyms (SPEC 4.4)."""

from __future__ import annotations

import pytest

from ragspine_assets.policy.profile import DimensionSpec, DomainProfile
from ragspine_assets.retrieval.rewriting import QueryRewriter, SynonymRewriter

PROFILE = DomainProfile(
    home_entity_synonyms={"Acme Hong Kong": "ACME_HK", "港区": "ACME_HK", "Acme Italy": "ACME_IT"},
    home_entity_labels={"ACME_HK": "Acme (HK)"},
    dimensions=(DimensionSpec("metric", synonyms={"revenue": "REVENUE", "sales": "REVENUE", "营收": "REVENUE"}),),
)


def variants(query: str, **options: int) -> list[str]:
    """Return the variants of a query."""
    return SynonymRewriter(PROFILE, **options).rewrite(query)


def test_a_name_is_replaced_by_the_other_names_of_the_same_thing() -> None:
    assert variants("Sales in May") == ["Sales in May", "revenue in may", "营收 in may"]


def test_labels_and_codes_are_names() -> None:
    assert variants("acme_hk costs", max_variants=9) == [
        "acme_hk costs", "Acme Hong Kong costs", "港区 costs", "Acme (HK) costs",
    ]  # fmt: skip


def test_every_name_of_a_query_gets_its_turn() -> None:
    found = variants("sales of Acme Hong Kong", max_variants=3)
    assert found == ["sales of Acme Hong Kong", "revenue of acme hong kong", "sales of 港区"]


def test_the_longest_name_wins_and_half_a_word_is_none() -> None:
    assert variants("salesman") == ["salesman"]
    assert len(variants("the acme  italy report")) == 2


def test_in_scripts_without_spaces_a_name_is_found_anywhere() -> None:
    assert "今年sales增长" in variants("今年营收增长")


@pytest.mark.parametrize("query", ["", "nothing known here"])
def test_a_query_without_names_is_its_only_variant(query: str) -> None:
    assert variants(query) == [query]
    assert SynonymRewriter(DomainProfile()).rewrite(query) == [query]


def test_width_and_case_do_not_hide_a_name() -> None:
    assert len(variants("ＳＡＬＥＳ")) == 3


def test_the_number_of_variants_is_bounded() -> None:
    assert len(variants("sales", max_variants=2)) == 2
    assert variants("sales", max_variants=0) == ["sales"]


def test_it_is_a_rewriter() -> None:
    assert isinstance(SynonymRewriter(PROFILE), QueryRewriter)
