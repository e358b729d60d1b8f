"""What is read out of a model's answer (SPEC 5.6)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.graph.reply_parser import Answer, Proposal, read_answer

ONE = '{"relations":[{"source":"Ann","target":"Bolt Ltd","kind":"leads"}]}'
ANN = Proposal("Ann", "Bolt Ltd", "leads")


@pytest.mark.parametrize(
    "reply",
    [
        ONE,
        f"```json\n{ONE}\n```",
        f"```\n{ONE}\n```",
        f"```json\n{ONE}",
        f"\ufeff{ONE}",
        f"  \r\n{ONE}\n\n",
        f"Here is what I found:\n{ONE}\nI hope [this] helps {{you}} [1].",
        f'<think>{{"a":1}}</think>{ONE}',
        f"<think>{ONE}</think>\n{ONE}",
        f"<Reasoning>it [says] so</Reasoning>{ONE}",
        f'{{"a":1}}</think>{ONE}',
        json.loads(ONE) and json.dumps(json.loads(ONE)["relations"]),
        ONE.replace('"leads"', '"leads","w":NaN,"source_doc_id":"x","verified":"verified"'),
        ONE.replace('{"relations"', '{"note":"none","relations"'),
    ],
)
def test_one_value_is_found_whatever_stands_around_it(reply: str) -> None:
    assert read_answer(reply) == Answer((ANN,))


def test_a_backtick_inside_a_name_is_part_of_it() -> None:
    answer = read_answer('```json\n{"relations":[{"source":"Ann","target":"use `ls`","kind":"k"}]}\n```')
    assert answer.proposals == (Proposal("Ann", "use `ls`", "k"),)


@pytest.mark.parametrize("reply", ["", "  \n", "\ufeff"])
def test_nothing_is_nothing(reply: str) -> None:
    assert read_answer(reply) == Answer(problem="empty_answer")


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot help with that.",
        ONE[:-1],
        ONE[:-2],
        ONE[: len(ONE) // 2],
        '{"relations":[{"source":"Ann","target":"Bolt","kind":"k"},]}',
        "{'relations':[]}",
        '{"relations":[{"source":"Ann","target":"Bolt","kind":"k","e":[]},{"sou',
        ONE + ONE,
        f"First {ONE} but then {ONE}",
        f"<think>{ONE}",
        "[" * 100_000,
        '{"relations":' * 50_000,
        '{"relations":[{"source":"A","target":"B","kind":"k","n":' + "9" * 5000 + "}]}",
        "x" * 1_000_001,
    ],
)
def test_what_is_not_one_complete_value_gives_nothing(reply: str) -> None:
    assert read_answer(reply) == Answer(problem="not_json")


@pytest.mark.parametrize("reply", ['{"relations":"none"}', '{"relations":null}', '{"answer":1}', '["Ann","Bolt"]'])
def test_a_value_of_another_shape_gives_nothing(reply: str) -> None:
    assert read_answer(reply) == Answer(problem="shape")


def test_items_that_are_no_relation_are_kept_as_such() -> None:
    reply = '{"relations":[1,"x",null,{"source":"Ann"},{"source":1,"target":"B","kind":"k"},[]]}'
    assert read_answer(reply) == Answer((None,) * 6)


def test_negative_polarity_is_seen() -> None:
    reply = '[{"source":"A","target":"B","kind":"k","polarity":"Negative"},{"source":"A","target":"B","kind":"k","negated":true}]'
    assert [item and item.negative for item in read_answer(reply).proposals] == [True, True]


def test_an_endless_list_is_cut_and_the_rest_counted() -> None:
    answer = read_answer(json.dumps({"relations": [{"source": "A", "target": "B", "kind": "k"}] * 1500}))
    assert (len(answer.proposals), answer.more) == (1000, 500)


def test_names_of_thousands_of_characters_are_not_kept_whole() -> None:
    (item,) = read_answer(json.dumps([{"source": "A" * 5000, "target": "B", "kind": "k"}])).proposals
    assert item is not None
    assert len(item.source) == 200


@pytest.mark.parametrize("filler", ["{a", "[x", "<think>", "<", "`", '"', "</think>"])
def test_reading_is_linear_in_the_answer(filler: str) -> None:
    start = time.process_time()
    read_answer(filler * 150_000)
    assert time.process_time() - start < 2


@given(st.text(max_size=300))
def test_no_answer_makes_reading_fail(reply: str) -> None:
    read_answer(reply)


@given(
    st.lists(
        st.one_of(st.none(), st.builds(Proposal, st.text(max_size=20), st.text(), st.text(), st.booleans())), max_size=5
    ),
    st.integers(0, 9),
)
def test_an_answer_that_was_kept_reads_back(items: list[Proposal | None], more: int) -> None:
    answer = Answer(tuple(items), more)
    assert Answer.from_json(answer.to_json()) == answer
