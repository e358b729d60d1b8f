import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.documents.frontmatter import (
    METADATA_KEYS,
    label_block,
    label_in_head,
    split_front_matter,
    stored_front_matter,
)
from ragspine_assets.documents.source import scan_source
from ragspine_assets.documents.worker import extract_batch
from ragspine_assets.policy import Sensitivity, read_label


def test_a_block_is_metadata_and_the_rest_is_the_text():
    found = split_front_matter("---\ntitle: Plan\n# c\n---\n# Real\n body \n")
    assert found.values == {"title": "Plan"}
    assert found.body == "# Real\n body \n"
    assert found.block == "title: Plan\n# c\n"
    assert found.line_offset == 4
    assert found.problem == ""


def test_every_value_stays_the_text_its_author_wrote():
    found = split_front_matter(
        "---\ntitle: 1.10\ntopic: no\nentity: [A, 'B, C']\ngeography: ~\nperiod: 'null'\nlanguage:\nvalid_as_of: 2024-01-31\n"
        "sensitivity: ' Public '\n...\n"
    )
    assert found.problem == ""
    assert dict(found.values) == {
        "title": "1.10",
        "topic": "no",
        "entity": "A, B, C",
        "geography": "",
        "period": "null",
        "language": "",
        "valid_as_of": "2024-01-31",
        "sensitivity": "Public",
    }


@pytest.mark.parametrize(
    "key",
    ["Sensitivity", "SENSITIVITY", "ｓｅｎｓｉｔｉｖｉｔｙ", '"sensitivity"', "sensi\u200btivity", "sensitivity "],
)
def test_no_spelling_of_the_key_hides_a_label(key):
    assert split_front_matter(f"---\n{key}: RESTRICTED\n---\nx").values == {"sensitivity": "RESTRICTED"}


def test_unknown_keys_are_ignored_whatever_they_hold():
    found = split_front_matter(
        "---\ntags: {a: [b, {c: d}]}\n? [x, y]\n: z\nvalid-as-of: 2024\nDraft: true\ndraft: false\n---\n"
    )
    assert found.values == {"valid_as_of": "2024"}
    assert found.problem == ""


@pytest.mark.parametrize(
    "block",
    [
        "title: 'open",
        "- a\n- b",
        "prose that somebody wrote",
        "title: a\ntitle: b",
        "title: a\nTitle: b",
        "x: 1\nx: 2",
        "a: &x 1",
        "a: *x",
        "title: {a: b}",
        "sensitivity: [[PUBLIC]]",
        "\ttitle: a",
        "a: " + "[" * 40,
        "a: " + "[" * 40 + "]" * 40,
        "title: a\n--- !x\nb",
        "title: a: b",
        "x: \x7f",
        "%YAML 9.9",
    ],
)
def test_what_cannot_be_parsed_is_a_problem_that_quotes_nothing(block):
    found = split_front_matter(f"---\n{block}\n---\nbody")
    assert found.problem
    assert found.values == {}
    assert found.body == "body"
    assert "prose" not in found.problem
    assert "open" not in found.problem


def test_a_bomb_of_aliases_is_a_problem_and_no_work():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{n}: &{n} [*a,*a,*a,*a,*a,*a,*a,*a]\n" for n in "bcdefghi")
    start = time.process_time()
    assert split_front_matter(f"---\n{bomb}---\n").problem
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Title\n",
        "----\ntitle: a\n----\n",
        "text\n---\ntitle: a\n---\n",
        "---",
        "---\n",
        "---\nprose without an end",
        " ---\ntitle: a\n---\n",
        "***\ntitle: a\n***\n",
    ],
)
def test_a_text_without_a_block_is_left_alone(text):
    found = split_front_matter(text)
    assert (found.body, found.block, found.values, found.line_offset, found.problem) == (text, "", {}, 0, "")


@pytest.mark.parametrize(
    "text", ["---\n\nprose\n\n---\nmore", "\n---\nprose\n---\nmore", "\n\n---\nNote: this matters\n---\nx"]
)
def test_thematic_breaks_around_prose_are_text(text):
    found = split_front_matter(text)
    assert (found.body, found.problem) == (text, "")


@pytest.mark.parametrize(
    "text",
    [
        "\n---\nsensitivity: RESTRICTED\n---\nx",
        "---\n\nsensitivity: RESTRICTED\n---\nx",
        "\u200b\n---\nsensitivity: RESTRICTED\n---\nx",
    ],
)
def test_blank_lines_do_not_hide_a_label(text):
    found = split_front_matter(text)
    assert found.values == {"sensitivity": "RESTRICTED"}
    assert found.body == "x"


@pytest.mark.parametrize(
    "text",
    [
        "---\nsensitivity: RESTRICTED\nbody",
        "---\ntitle: a\nＳensitivity： RESTRICTED\n",
        "---\nsensitivity: RESTRICTED\n" + "x" * 70_000 + "\n---\n",
        "\n---\nsensitivity: [\n---\nx",
    ],
)
def test_a_label_in_a_block_that_cannot_be_read_is_a_problem(text):
    assert split_front_matter(text).problem


ODD = [
    '+++\nsensitivity = "CONFIDENTIAL"\n+++\nx', "\n+++\n[extra]\nsensitivity = 'confidential'\n+++",
    "# note\n---\nsensitivity: CONFIDENTIAL\n---\nx", "<!-- note -->\n---\nsensitivity: CONFIDENTIAL\n---\nx",
    "<!-- sensitivity: CONFIDENTIAL -->\nx", "<!--\nsensitivity: CONFIDENTIAL\n-->\nx",
    '{"title": "a", "sensitivity": "CONFIDENTIAL"}\nx', '{\n "sensitivity": "CONFIDENTIAL"\n}\nx',
    ":sensitivity: CONFIDENTIAL\n\nx", ".. sensitivity: CONFIDENTIAL\n", ".. meta::\n   :sensitivity: CONFIDENTIAL\n",
    "```yaml\nsensitivity: CONFIDENTIAL\n```\nx", "Title: a\nSensitivity = confidential\n\nx",
    "\uff33ensitivity\uff1a CONFIDENTIAL\n", "sens\u200bitivity: CONFIDENTIAL\n", "<p>--- sensitivity: CONFIDENTIAL ---</p>",
    "/*\nsensitivity: CONFIDENTIAL\n*/\nx", "<html>\n<title>T</title>\n<!-- sensitivity: CONFIDENTIAL -->\n",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_a_label_at_the_start_of_a_text_is_read_whatever_it_stands_in(text):
    assert read_label(label_in_head(text)) is Sensitivity.CONFIDENTIAL
    assert split_front_matter(f"---\n{label_block(str(label_in_head(text)))}---\n").values == {
        "sensitivity": "confidential"
    }


@pytest.mark.parametrize(
    "text", ["+++\nsensitivity = 'confidentail'\n+++", "<!-- sensitivity: -->", "Sensitivity: restrictd"]
)
def test_a_label_there_that_is_none_is_no_label_but_one_was_meant(text):
    assert read_label(label_in_head(text) or "") is Sensitivity.RESTRICTED
    assert label_in_head(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "Sensitivity: 5 mV/V\n", "Model: x\nSensitivity: 5 mV", "# Sensitivity: an overview\n", "# API\n```\nsensitivity: 0.8\n",
        "Dear all,\n\nsensitivity: RESTRICTED", "Sensitivity analysis: restricted models\n", "---\na: b\n---\nsensitivity: 5",
        "x\n" * 50 + "sensitivity: RESTRICTED",
    ],
)  # fmt: skip
def test_a_sensitivity_of_another_kind_is_no_label(text):
    assert label_in_head(text) is None


@pytest.mark.parametrize("suffix", [".md", ".txt", ".rst", ".html"])
def test_a_label_before_the_text_counts_in_every_text_format(tmp_path, suffix):
    body = "<!-- sensitivity: CONFIDENTIAL -->\n<p>Words.</p>\n" if suffix == ".html" else f"{ODD[0]}\n\nWords.\n"
    (tmp_path / f"a{suffix}").write_text(body)
    (row,) = extract_batch(tmp_path, scan_source(tmp_path).files).to_pylist()
    assert stored_front_matter(row["front_matter"], row["front_matter_problem"]).values == {
        "sensitivity": "confidential"
    }


def test_an_empty_block_is_no_metadata_and_no_text():
    for text in ("---\n---\nx", "---\n# only a comment\n---\nx"):
        found = split_front_matter(text)
        assert (found.values, found.body, found.problem) == ({}, "x", "")


@settings(max_examples=500, deadline=None, database=None)
@given(st.text(alphabet="-.: \n#abtile[]{}'\"&*!|>%@,?~\t", max_size=40), st.text(max_size=20))
def test_any_block_gives_known_names_and_texts_and_loses_no_line(block, rest):
    text = f"---\n{block}\n---\n{rest}"
    found = split_front_matter(text)
    assert set(found.values) <= set(METADATA_KEYS)
    assert all(isinstance(value, str) for value in found.values.values())
    assert text.endswith(found.body)
    assert text.count("\n", 0, len(text) - len(found.body)) == found.line_offset
