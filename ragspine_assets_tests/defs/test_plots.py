"""Pictures are drawn again only where somebody could see a difference (SPEC 6.1)."""

import base64
from collections.abc import Callable

import dagster as dg
import pytest

from ragspine_assets.defs.plots import LABEL_COLOURS, histogram, network, stacked_bars, to_the_pixel


def test_small_counts_are_shown_as_they_are() -> None:
    assert to_the_pixel([0, 1, 199, 399]) == [0, 1, 199, 399]
    assert to_the_pixel([]) == []


def test_one_chunk_more_among_thousands_gives_the_same_picture_and_hundreds_more_another() -> None:
    counts = [40, 3_000, 20_010]
    assert to_the_pixel([40, 3_001, 20_010]) == to_the_pixel(counts)
    assert to_the_pixel([40, 3_200, 20_010]) != to_the_pixel(counts)


def test_no_bar_is_off_by_more_than_half_a_pixel_of_two_hundred() -> None:
    counts = [12_345, 7_049, 55, 0, 20_049]
    assert all(abs(a - b) <= max(counts) / 400 for a, b in zip(to_the_pixel(counts), counts, strict=True))


@pytest.mark.rendered
def test_a_name_that_looks_like_mathematics_is_drawn_as_it_is() -> None:
    broken = "$\\frac$"
    assert "base64" in str(stacked_bars({broken: {"PUBLIC": 1}}, LABEL_COLOURS, broken).md_str)
    assert "base64" in str(network([(broken, "doc", broken)], [], "").md_str)


@pytest.mark.rendered
def test_every_kind_of_picture_is_a_png_and_the_same_each_time() -> None:
    drawings: list[Callable[[], dg.MarkdownMetadataValue]] = [
        lambda: stacked_bars({"en": {"PUBLIC": 3}, "ⴰ" * 255: {"PUBLIC": 1}}, LABEL_COLOURS, "Bars"),
        lambda: histogram([0, 10, 20], [3, 1], "Lengths", "code points"),
        lambda: network([("a", "entity", "A$x"), ("b", "metric", "B")], [("a", "b", "mentions")], "Graph"),
    ]
    for draw in drawings:
        before, _, data = (draw().md_str or "").partition("base64,")
        assert before.startswith("![")
        assert base64.b64decode(data.rstrip(")")).startswith(b"\x89PNG")
        assert (draw().md_str or "").endswith(f"{data}")
