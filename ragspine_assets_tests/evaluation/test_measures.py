"""What is measured is what the names say (SPEC 10.1)."""

import math

import numpy as np
import pytest

from ragspine_assets.evaluation.comparison import compare, smallest_visible_loss
from ragspine_assets.evaluation.measures import Evaluation, Judged, evaluate
from ragspine_assets.evaluation.questions import Expected, GoldenQuestion

from .conftest import THINGS, Library, passage_of


def asked(text: str, *expected: Expected, **filters: str) -> GoldenQuestion:
    return GoldenQuestion(2, text, expected, filters=filters)


def test_a_passage_found_third_has_the_gain_of_the_third_place(library: Library) -> None:
    library.pipeline.write({f"n{n}.txt": "mill mill mill mill\n" for n in range(2)})
    library.publish()
    (one,) = evaluate(library.open(), [asked("mill", Expected(passage_of("mill")))]).judged
    assert one.values["RR"] == pytest.approx(1 / 3)
    assert one.values["nDCG@10"] == pytest.approx(1 / math.log2(4))
    assert (one.values["R@5"], one.values["R@100"], one.values["passage in 2000"]) == (1, 1, 1)


def test_a_passage_that_chunks_cut_is_found_by_its_larger_part(library: Library) -> None:
    passage = " ".join(f"word{n} of the long passage" for n in range(40))
    library.pipeline.write({"long.txt": f"{'Before. ' * 40}{passage}. {'After. ' * 40}\n"})
    library.publish()
    (one,) = evaluate(library.open(), [asked("word3 long passage", Expected(passage, doc_id="long.txt"))]).judged
    assert not one.stale
    assert one.values["R@10"] == 1


def test_a_document_or_a_citation_can_be_what_is_expected(library: Library) -> None:
    library.publish()
    chunk = library.open().chunks[int(library.open().chunks.of_document("mill.txt")[0])]
    questions = [
        asked("mill", Expected(doc_id="mill.txt")),
        asked("mill", Expected(citation=chunk.citation)),
        asked("mill", Expected(citation="mill.txt@v7#c0")),
    ]
    by_document, by_citation, of_no_version = evaluate(library.open(), questions).judged
    assert by_document.values["RR"] == by_citation.values["RR"] == 1
    assert of_no_version.stale


def test_a_wrong_filter_finds_nothing(library: Library) -> None:
    library.publish()
    (one,) = evaluate(library.open(), [asked("mill", Expected(passage_of("mill")), topic="nowhere")]).judged
    assert set(one.values.values()) == {0.0}


def evaluation(values: list[float]) -> Evaluation:
    return Evaluation("s", tuple(Judged(asked(str(n)), {"nDCG@10": value}) for n, value in enumerate(values)))


def test_what_a_set_can_show_is_what_the_bootstrap_shows() -> None:
    lost = round(smallest_visible_loss(30) * 30)
    before = evaluation([1.0] * 30)
    assert compare(before, evaluation([0.0] * lost + [1.0] * (30 - lost))).significant
    assert not compare(before, evaluation([0.0] * (lost - 1) + [1.0] * (31 - lost))).significant


def test_harmless_changes_are_seldom_taken_for_losses() -> None:
    alarms = 0
    for seed in range(200):
        chance = np.random.default_rng(seed)
        values = chance.choice([1, 0.63, 0.5, 0.43, 0], 30)
        moved = np.where(chance.random(30) < 0.2, chance.choice([1, 0.63, 0.5, 0.43, 0], 30), values)
        alarms += compare(evaluation(values.tolist()), evaluation(moved.tolist())).significant
    assert alarms <= 10 + 8


def test_means_stand_by_language_label_and_topic(library: Library) -> None:
    library.publish()
    found = evaluate(library.open(), library.gate().questions)
    rows = {(row["by"], row["value"]): row["questions"] for row in found.table()}
    assert rows == {("all", ""): len(THINGS), ("language", "en"): len(THINGS), ("label", "INTERNAL"): len(THINGS)}
