"""The golden set is read whole or not at all (SPEC 10.1)."""

from pathlib import Path

import pytest

from ragspine_assets.defs.resources import QuestionsResource
from ragspine_assets.evaluation.drafts import draft_questions
from ragspine_assets.evaluation.measures import evaluate
from ragspine_assets.evaluation.questions import Expected, QuestionsError, read_questions, write_questions

from .conftest import Library


def read(path: Path, text: str, name: str = "q.csv") -> list[object]:
    (path / name).write_text(text, encoding="utf-8")
    return list(read_questions(path / name))


def test_rows_of_one_question_are_one_question_with_several_answers(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        "question,passage,citation,filter_entity,language\nwho?,He.,,ACME,en\n\nwho?,,a.md@v1#c2,ACME,\n",
    )
    assert found.expected == (Expected("He."), Expected(citation="a.md@v1#c2"))
    assert (found.number, found.filters, found.language) == (2, {"entity": "ACME"}, "en")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("question,pasage\nSECRETWORD,x\n", "is 'passage' meant"),
        ("SECRETWORD,x\nSECRETWORD,x\n", "does it have a header"),
        ("question,passage\n,SECRETWORD\n", "line 2: question is empty"),
        ("question,passage\nSECRETWORD,\n", "line 2: name what is expected"),
        ("question,passage\nSECRETWORD,a,b\n", "line 2: the row has more cells"),
        ('question,passage\n"SECRETWORD,a\n', "this is no table"),
    ],
)
def test_a_wrong_row_is_told_by_its_line_and_never_by_what_stands_in_it(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(QuestionsError, match=said) as caught:
        read(tmp_path, text)
    assert "SECRETWORD" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuestionsError, match=r"nowhere\.csv cannot be read"):
        read_questions(tmp_path / "nowhere.csv")


def test_drafts_are_a_golden_set_that_the_snapshot_answers(library: Library, tmp_path: Path) -> None:
    library.pipeline.write({"guide.md": "# Lifting the anchor\n\nThe anchor is lifted by two sailors at dawn.\n"})
    library.publish()
    drafts = tmp_path / "drafts.csv"
    drafts.write_text(write_questions(draft_questions(library.open(), 50)))
    questions = read_questions(drafts)
    assert "Lifting the anchor" in {question.text for question in questions}
    assert not evaluate(library.open(), questions).stale()


def test_a_draft_is_no_formula_of_a_spreadsheet() -> None:
    assert "\n'=HYPERLINK" in write_questions([("=HYPERLINK(1)", "a", "b", "")])


def test_questions_that_nobody_named_may_be_missing_and_named_ones_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert QuestionsResource().read() == []
    with pytest.raises(QuestionsError, match=r"mine\.csv cannot be read"):
        QuestionsResource(path="mine.csv").read()
