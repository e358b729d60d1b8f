import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.policy import CarriedLabel, FileLabels, SensitivityPolicy, explain_sensitivity
from ragspine_assets.policy.labelling import Aside
from ragspine_assets.policy.markings import TLP

POLICY = SensitivityPolicy(
    default_level="PUBLIC",
    markings={
        "CONFIDENTIAL": ["Confidential", "Vertraulich", "社外秘"],
        "RESTRICTED": ["Board only", "Streng vertraulich"],
    },
    labels={
        "2F1C3A54-7A0B-4D1E-9C55-0D2B6F3E8A11": "RESTRICTED",
        "Personal": "CONFIDENTIAL",
        "TLP:GREEN": "CONFIDENTIAL",
    },
)


def label(text: str) -> str:
    return explain_sensitivity("a.txt", f"The crane is inspected in spring.\n\n{text}\n\nAgain in April.", POLICY).label


@pytest.mark.parametrize(
    "line",
    [
        "Confidential",
        "CONFIDENTIAL",
        "- Confidential -",
        "*** confidential ***",
        "**Confidential**",
        "> Confidential",
        "# Confidential",
        "1. Confidential",
        "Confidential.",
        "[Confidential]",
        "(Confidential)",
        "Confidential, 12 May 2026",
        "2026-05-12 Confidential",
        "Confidential | Page 3 of 5",
        "Confidential 3/5",
        "Page 3 – Confidential",
        "Vertraulich / Confidential",
        "Vertraulich – Seite 3 von 7",
        "C O N F I D E N T I A L",
        "Ｃｏｎｆｉｄｅｎｔｉａｌ",
        "Con\u200bfidential",
        "| a | Confidential | b |",
        "a\tConfidential\tb",
        "<p>Confidential</p>",
        "<!-- Confidential -->",
        "Classification: Confidential",
        "社外秘",
        "【社外秘】",
        "社外秘 2026年5月12日",
        "社 外 秘",
        "Confidential Confidential",
        "TLP:AMBER",
        "TLP: AMBER",
        "tlp : amber",
        "TLP-AMBER",
    ],
)
def test_a_marking_that_stands_alone_gives_its_level(line):
    assert label(line) == "CONFIDENTIAL"


@pytest.mark.parametrize(
    "line",
    [
        "Confidential waste is shredded on Fridays.",
        "The draft was confidential",
        "Confidentiality",
        "Non-Confidential",
        "Not confidential",
        "Confidential or not",
        "社外秘資料の扱い",
        "We mark it TLP:RED when it is about people.",
        "TLP:REDACTED",
        "Unvertraulich",
        "A board only meets in May",
    ],
)
def test_a_marking_in_a_sentence_marks_nothing(line):
    assert label(line) == "PUBLIC"


@pytest.mark.parametrize("line", ["Board only", "Board\nonly", "| Board | only |", "Streng vertraulich", "TLP:AMBER+STRICT",
                                  "TLP : AMBER + STRICT", "TLP:AMBER STRICT", "TLP:RED", "Confidential\n\nBoard only"])  # fmt: skip
def test_the_highest_of_several_counts(line):
    assert label(line) == "RESTRICTED"


@pytest.mark.parametrize(("phrase", "level"), [(phrase, level) for phrase, level in TLP.items()])
def test_the_traffic_light_protocol_is_built_in(phrase, level):
    assert explain_sensitivity("a.txt", phrase, SensitivityPolicy(default_level="PUBLIC")).label == level.value


def test_a_marking_never_lowers():
    policy = SensitivityPolicy(default_level="CONFIDENTIAL", markings={"PUBLIC": ["Public"]})
    assert explain_sensitivity("a.txt", "Public", policy).label == "CONFIDENTIAL"


@pytest.mark.parametrize("kind", ["header", "footer", "master", "property", "comment", "watermark", "form field"])
def test_a_marking_beside_the_text_counts_and_the_reason_names_its_place_and_no_words(kind):
    file = FileLabels((Aside(kind, "part1.xml", "secret words\nBoard only"),))
    verdict = explain_sensitivity("a.docx", "text", POLICY, file=file)
    assert (verdict.label, verdict.reason) == ("RESTRICTED", f"printed marking 'Board only', in its {kind} (part1.xml)")


@pytest.mark.parametrize(
    "title", ["[Board only] agenda", "TLP:RED: incident", "Board only | agenda", "【Board only】agenda"]
)
def test_a_subject_or_title_is_marked_in_front_of_its_words_too(title):
    assert (
        explain_sensitivity("a.eml", "text", POLICY, file=FileLabels((Aside("subject", "", title),))).label
        == "RESTRICTED"
    )


@pytest.mark.parametrize(
    ("carried", "level"),
    [
        (CarriedLabel("x", guid="2f1c3a54-7a0b-4d1e-9c55-0d2b6f3e8a11"), "RESTRICTED"),
        (CarriedLabel("x", guid="2f1c3a54-7a0b-4d1e-9c55-0d2b6f3e8a11", enabled=False), "PUBLIC"),
        (CarriedLabel("x", name="ｐersonal"), "CONFIDENTIAL"),
        (CarriedLabel("x", name="TLP:AMBER+STRICT"), "RESTRICTED"),
        (CarriedLabel("x", name="TLP:GREEN"), "CONFIDENTIAL"),
        (CarriedLabel("x", name="internal"), "INTERNAL"),
        (CarriedLabel("x", guid="00000000-0000-4000-8000-000000000000", name="Public"), "RESTRICTED"),
        (CarriedLabel("x", name="Whatever"), "RESTRICTED"),
    ],
)
def test_a_carried_label_has_the_level_of_the_tables_and_an_unknown_one_is_restricted(carried, level):
    assert explain_sensitivity("a.docx", "", POLICY, file=FileLabels((), (carried,))).label == level


def test_an_unknown_label_is_reported_with_what_to_do():
    verdict = explain_sensitivity(
        "a.docx", "", POLICY, file=FileLabels((), (CarriedLabel("custom.xml", name="Whatever"),))
    )
    (problem,) = verdict.problems
    assert "'Whatever'" in problem
    assert "add it" in problem
    assert "[labels]" in problem


def test_a_sentence_in_place_of_a_name_is_not_shown():
    label = CarriedLabel("HTML meta", name="the merger with Veltamara is planned for the autumn")
    verdict = explain_sensitivity("a.html", "", POLICY, file=FileLabels((), (label,)))
    assert "Veltamara" not in repr(verdict)


def test_a_part_that_cannot_be_read_fails_closed():
    verdict = explain_sensitivity(
        "a.docx", "", POLICY, file=FileLabels(problems=("its part custom.xml cannot be read",))
    )
    assert verdict.label == "RESTRICTED"
    assert verdict.problems


def test_what_a_file_says_survives_its_column():
    file = FileLabels((Aside("a", "b", "c\ud83d\n", 2),), (CarriedLabel("s", "g", "n", enabled=False),), ("p",))
    assert FileLabels.load(file.dump()) == file
    assert FileLabels().dump() == ""


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.text(max_size=50))
def test_no_text_beside_the_text_lowers_a_label(text, aside):
    plain = explain_sensitivity("a.txt", text, POLICY)
    with_aside = explain_sensitivity("a.txt", text, POLICY, file=FileLabels((Aside("comment", "", aside),)))
    order = ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]
    assert order.index(with_aside.label) >= order.index(plain.label)
