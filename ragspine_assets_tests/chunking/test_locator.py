"""The locator format (SPEC 2.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.chunking.locator import locator, parse_locator
from ragspine_assets.natural_order import natural_key


@given(prefix=st.text(min_size=1), start=st.integers(1, 10**6), length=st.integers(0, 50))
def test_a_locator_reads_back_as_what_it_was_made_of(prefix: str, start: int, length: int) -> None:
    assert parse_locator(locator(prefix, start, start + length)) == (prefix, start, start + length)


def test_one_paragraph_is_named_by_its_number_alone() -> None:
    assert locator("d", 3, 3) == "d#para3"
    assert locator("d", 3, 5) == "d#para3-5"


def test_a_prefix_that_looks_like_a_locator_stays_whole() -> None:
    assert parse_locator("p#para3#para7-9") == ("p#para3", 7, 9)


@pytest.mark.parametrize(
    "text", ["", "d", "d#para", "d#para0", "d#para3-2", "#para1", "d#para1-", "d#para1x", "d#para٣"]
)
def test_what_is_no_locator_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a locator"):
        parse_locator(text)


def test_numbers_in_locators_order_as_numbers() -> None:
    names = ["d#para10", "d#para2", "d#para2-10", "d#para2-9", "e#para1", "d#c10", "d#c9", "10", "9", ""]
    assert sorted(names, key=natural_key) == [
        "", "9", "10", "d#c9", "d#c10", "d#para2", "d#para2-9", "d#para2-10", "d#para10", "e#para1",
    ]  # fmt: skip


@given(st.text("a1#0-é٣", max_size=6), st.text("a1#0-é٣", max_size=6))
def test_only_equal_texts_have_equal_places(one: str, other: str) -> None:
    assert (natural_key(one) == natural_key(other)) == (one == other)
