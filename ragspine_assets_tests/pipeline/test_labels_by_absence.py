"""No label falls, and nothing is withdrawn, because something is missing (SPEC 1.6, 1.7, 1.8)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ragspine_assets.documents.metadata import MetadataTable, load_metadata_table, read_metadata_table
from ragspine_assets.documents.source import OTHER_TABLE
from ragspine_assets.pipeline import MassRemovalError
from ragspine_assets.pipeline.documents import LostLabelsError, lost_labels
from ragspine_assets.pipeline.purge import delete_document
from ragspine_assets.policy import Sensitivity, SensitivityPolicy
from ragspine_assets_tests.conftest import Pipeline

ROWS = "doc_id,sensitivity\nhr/pay.txt,RESTRICTED\n"
KEYWORD = SensitivityPolicy(restricted_keywords=["strictly confidential"])


@pytest.fixture
def source(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A source whose table is read as a run reads it."""
    monkeypatch.setattr(Pipeline, "metadata", lambda self: read_metadata_table(self.root))
    pipeline.write({"hr/pay.txt": "Ann earns seven.", "open.txt": "The canteen opens at noon."})
    return pipeline


def label(pipeline: Pipeline, doc_id: str) -> object:
    return pipeline.rows("SELECT sensitivity FROM document WHERE doc_id = ?", doc_id)[0][0]


def everything(pipeline: Pipeline) -> list[list[tuple[object, ...]]]:
    tables = ("document", "document_text", "narrative_chunk", "label_history", "earlier_content", "store_setting")
    return [pipeline.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables]


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/metadata.csv")


def a_link_out(path: Path) -> None:
    outside = path.parent.parent / "outside.csv"
    path.rename(outside)
    path.symlink_to(outside)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_text(""),
    "blank": lambda path: path.write_text("\n\n"),
    "header only": lambda path: path.write_text("doc_id,sensitivity\n"),
    "row gone": lambda path: path.write_text("doc_id,sensitivity\nopen.txt,INTERNAL\n"),
    "cell lower by a glob": lambda path: path.write_text("doc_id,sensitivity\nhr/*,INTERNAL\n"),
    "no column of labels": lambda path: path.write_text("doc_id,title\nhr/pay.txt,Pay\n"),
    "a folder": a_folder,
    "a dangling link": a_dangling_link,
    "a link out of the source": a_link_out,
    "a pipe": a_pipe,
    "renamed": lambda path: path.rename(path.with_name("Metadata.csv")),
}


def test_a_table_that_is_lost_stops_the_run_before_it_writes(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS})
    source.intake()
    before = everything(source)
    path = source.root / "metadata.csv"
    for what, lose in LOSSES.items():
        lose(path)
        with pytest.raises(LostLabelsError, match=r"ALLOW_LOWER_LABELS=1") as stopped:
            source.intake()
        assert "hr/pay" not in str(stopped.value), what
        assert everything(source) == before, what
        for left in source.root.glob("[mM]etadata.csv"):
            left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()
        source.write({"metadata.csv": ROWS})
    path.unlink()
    source.intake(allow_lower_labels=True)
    assert label(source, "hr/pay.txt") == "INTERNAL"


def test_a_table_that_comes_back_costs_nothing(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS})
    source.run()
    before = everything(source)
    (source.root / "metadata.csv").unlink()
    with pytest.raises(LostLabelsError):
        source.intake()
    source.write({"metadata.csv": ROWS})
    documents, *_ = source.run()
    assert documents.outcomes == {"unchanged": 2}
    assert everything(source)[:4] == before[:4]


def test_an_exact_row_lowers_a_label_without_a_question(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS})
    source.intake()
    source.write({"metadata.csv": ROWS.replace("RESTRICTED", "INTERNAL")})
    source.intake()
    assert label(source, "hr/pay.txt") == "INTERNAL"


@pytest.mark.parametrize(
    "weaker",
    [SensitivityPolicy(), SensitivityPolicy(restricted_keywords=["other"]), SensitivityPolicy(default_level="PUBLIC")],
)
def test_a_policy_that_says_less_stops_the_run(source: Pipeline, weaker: SensitivityPolicy) -> None:
    source.policy = SensitivityPolicy(restricted_keywords=["earns"], restricted_filename_patterns=["open"])
    source.intake()
    before = everything(source)
    source.policy = weaker
    with pytest.raises(LostLabelsError, match="2 documents"):
        source.intake()
    assert everything(source) == before
    source.intake(allow_lower_labels=True)
    assert label(source, "hr/pay.txt") == weaker.default_level


def test_a_lost_table_raises_nothing_either(source: Pipeline) -> None:
    source.policy = SensitivityPolicy(escalate_unknown_to_restricted=True)
    source.write({"metadata.csv": "doc_id,sensitivity\nhr/pay.txt,INTERNAL\nopen.txt,PUBLIC\n"})
    source.intake()
    before = everything(source)
    (source.root / "metadata.csv").unlink()
    with pytest.raises(LostLabelsError):
        source.intake()
    assert everything(source) == before


def test_a_section_that_is_missing_stops_the_run_though_no_label_would_fall(source: Pipeline) -> None:
    for before, after in (
        (SensitivityPolicy(default_level="PUBLIC", restricted_keywords=["zanzibar"]), SensitivityPolicy()),
        (SensitivityPolicy(restricted_keywords=["zanzibar"]), SensitivityPolicy()),
        (SensitivityPolicy(labels={"General": "INTERNAL"}, restricted_keywords=["z"]), SensitivityPolicy(restricted_keywords=["z"])),
    ):  # fmt: skip
        source.policy = before
        source.intake(allow_lower_labels=True)
        stored = everything(source)
        source.policy = after
        with pytest.raises(LostLabelsError, match="profile"):
            source.intake()
        assert everything(source) == stored


def test_what_is_there_raises_labels_even_where_something_else_is_missing(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS})
    source.intake()
    (source.root / "metadata.csv").unlink()
    source.policy = SensitivityPolicy(restricted_keywords=["canteen"])
    with pytest.raises(LostLabelsError):
        source.intake()
    assert label(source, "open.txt") == "RESTRICTED"
    assert label(source, "hr/pay.txt") == "RESTRICTED"


def test_an_unmounted_folder_moves_no_label(source: Pipeline) -> None:
    source.policy = SensitivityPolicy(escalate_unknown_to_restricted=True)
    names = [f"{n}.txt" for n in range(20)]
    source.write({name: f"Text {name}." for name in names})
    rows = "".join(f"{name},INTERNAL\n" for name in names)
    source.write({"metadata.csv": f"doc_id,sensitivity\n{rows}"})
    source.intake()
    before = everything(source)
    away = source.root.rename(source.root.with_name("away"))
    source.root.mkdir()
    with pytest.raises((LostLabelsError, MassRemovalError)):
        source.intake()
    assert everything(source) == before
    source.root.rmdir()
    away.rename(source.root)
    assert source.intake().outcomes == {"unchanged": 22}


def test_half_and_then_half_of_the_rest_stops_the_run(source: Pipeline) -> None:
    source.write({f"{n}.txt": f"Text {n}." for n in range(38)})
    source.intake()
    for n in range(20):
        (source.root / f"{n}.txt").unlink()
    source.intake()
    source.intake()
    for n in range(20, 30):
        (source.root / f"{n}.txt").unlink()
    with pytest.raises(MassRemovalError, match="30 of 40"):
        source.intake()
    source.intake(allow_mass_removal=True)
    (source.root / "30.txt").unlink()
    source.intake()


def test_files_that_became_blank_count_as_gone(source: Pipeline) -> None:
    source.write({f"{n}.txt": f"Text {n}." for n in range(20)})
    source.intake()
    source.write({f"{n}.txt": " \u200b\n" for n in range(15)})
    with pytest.raises(MassRemovalError, match="15 of 22"):
        source.intake()
    assert source.rows("SELECT count(*) FROM document_text") == [(22,)]


def test_a_file_that_becomes_empty_keeps_its_label_and_gives_it_up_with_new_words(source: Pipeline) -> None:
    source.policy = KEYWORD
    source.write({"plan.txt": "Strictly confidential: Zanzibar."})
    source.intake()
    for content in ("", " \n"):
        source.write({"plan.txt": content})
        source.intake()
        source.intake()
        assert label(source, "plan.txt") == "RESTRICTED"
    source.write({"plan.txt": "Lunch at noon."})
    source.intake()
    assert label(source, "plan.txt") == "INTERNAL"


def test_a_label_from_the_words_of_a_file_goes_with_them(source: Pipeline) -> None:
    source.policy = KEYWORD
    source.write({"plan.txt": "Strictly confidential: Zanzibar."})
    source.intake()
    source.write({"plan.txt": "Lunch at noon."})
    source.intake()
    assert label(source, "plan.txt") == "INTERNAL"


def test_a_removed_document_keeps_its_label_when_it_comes_back(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS})
    source.intake()
    (source.root / "hr/pay.txt").unlink()
    source.write({"metadata.csv": "doc_id,sensitivity\nopen.txt,INTERNAL\n"})
    source.intake()
    assert label(source, "hr/pay.txt") == "RESTRICTED"
    source.write({"hr/pay.txt": "Other words."})
    source.intake()
    source.intake()
    assert label(source, "hr/pay.txt") == "RESTRICTED"
    source.write({"metadata.csv": "doc_id,sensitivity\nhr/pay.txt,INTERNAL\n"})
    source.intake()
    assert label(source, "hr/pay.txt") == "INTERNAL"


@pytest.mark.parametrize("how", ["copied", "renamed", "an older version", "of a removed document"])
def test_the_bytes_of_a_restricted_document_are_restricted_until_a_row_says_otherwise(
    source: Pipeline, how: str
) -> None:
    secret = "Ann earns seven."
    source.write({"metadata.csv": ROWS})
    source.intake()
    pay = source.root / "hr/pay.txt"
    if how == "renamed":
        pay.rename(source.root / "new.txt")
    else:
        if how == "an older version":
            source.write({"hr/pay.txt": "Ann earns eight."})
            source.intake()
        if how == "of a removed document":
            pay.unlink()
            source.intake()
        source.write({"new.txt": secret})
    source.intake()
    source.intake()
    assert label(source, "new.txt") == "RESTRICTED"
    source.write({"metadata.csv": ROWS + "new.txt,PUBLIC\n"})
    source.intake()
    assert label(source, "new.txt") == "PUBLIC"


def test_an_empty_file_is_no_copy(source: Pipeline) -> None:
    source.write({"metadata.csv": ROWS, "hr/pay.txt": "", "other.txt": ""})
    source.intake()
    assert label(source, "other.txt") == "INTERNAL"


TABLES = ["Metadata.csv", "METADATA.CSV", "sub/metadata.csv", "metadata.xlsx", "metadata.tsv", "metadata.csv.bak",
          "metadata (1).csv", "sub/Metadata_old.CSV", "\uff4detadata.csv", "metadata - Copy.csv"]  # fmt: skip


def test_a_table_of_metadata_elsewhere_is_refused_by_name(source: Pipeline) -> None:
    source.write(dict.fromkeys(TABLES, ROWS))
    report = source.intake()
    assert source.rows("SELECT count(*) FROM document WHERE status = 'failed' AND reason = ?", OTHER_TABLE) == [
        (len(TABLES),)
    ]
    assert sum(OTHER_TABLE in problem for problem in report.problems) == len(TABLES)
    assert not any("etadata" in problem.split(OTHER_TABLE)[0] for problem in report.problems)


def test_a_table_of_metadata_under_any_name_is_no_document(source: Pipeline) -> None:
    tables = {"labels.csv": ROWS, "owners.csv": "owner;Doc ID;Sensitivity\nAnn;hr/pay.txt;RESTRICTED\n"}
    source.write({**tables, "figures.csv": "doc,value\na,1\n"})
    source.intake()
    assert source.rows("SELECT doc_id, status FROM document WHERE doc_id LIKE '%.csv' ORDER BY 1") == [
        ("figures.csv", "ingested"),
        ("labels.csv", "failed"),
        ("owners.csv", "failed"),
    ]


SPELLED = ["hr\\pay.txt", "/hr/pay.txt", "HR/Pay.txt", "hr//pay.txt", "hr/", "hr\\", "hr", "HR", "hr/pay", "pay.txt",
           "\uff48\uff52/\uff50\uff41\uff59.txt", "hr/pa\u200by.txt", "./hr/pay.txt", "././hr/pay.txt", "x/../hr/pay.txt",
           "../hr/pay.txt", "hr / pay.txt", "hr/pay.TXT", "data/raw/hr/pay.txt", "C:\\raw\\hr\\pay.txt",
           "file:///raw/hr/pay.txt", "hr/pay%2Etxt", "HR/*", "hr\\*", "/hr/**", "./hr/*.TXT", "\ufeffhr/pay.txt"]  # fmt: skip


@pytest.mark.parametrize("path", SPELLED)
def test_a_row_that_spells_a_path_in_another_way_names_it(path: str) -> None:
    table = load_metadata_table(f'doc_id,sensitivity\n"{path}",RESTRICTED\n'.encode())
    documents = {"hr/pay.txt", "open.txt"}
    named = {doc_id for row in table.spelled_differently(documents) for doc_id in row.named}
    assert named == {"hr/pay.txt"} or table.row_for("hr/pay.txt")
    assert not lost_labels(table, documents, Sensitivity.INTERNAL)


def test_what_such_a_row_names_gets_at_least_its_label_and_is_reported(source: Pipeline) -> None:
    source.write({"metadata.csv": "doc_id,sensitivity\nHR\\Pay,RESTRICTED\n"})
    report = source.intake()
    assert (label(source, "hr/pay.txt"), label(source, "open.txt")) == ("RESTRICTED", "INTERNAL")
    assert any("line 2" in problem for problem in report.problems)
    assert source.intake().lowered == 0


def test_a_row_of_a_file_that_is_gone_moves_no_label_of_another(source: Pipeline) -> None:
    source.write({"metadata.csv": "doc_id,sensitivity\nhr/open.txt,RESTRICTED\n", "hr/open.txt": "Secret words."})
    source.intake()
    (source.root / "hr/open.txt").unlink()
    assert source.intake().raised == 0
    assert label(source, "open.txt") == "INTERNAL"


def test_what_was_purged_is_not_missed(source: Pipeline) -> None:
    source.write({f"{n}.txt": f"Text {n}." for n in range(20)})
    source.intake()
    for n in range(15):
        (source.root / f"{n}.txt").unlink()
        with source.store.connect() as connection:
            delete_document(connection, f"{n}.txt")
    (source.root / "15.txt").unlink()
    assert source.intake().outcomes["removed"] == 1


def test_such_a_row_never_lowers(source: Pipeline) -> None:
    source.policy = SensitivityPolicy(default_level="CONFIDENTIAL")
    source.write({"metadata.csv": "doc_id,sensitivity\nHR/Pay.txt,PUBLIC\n"})
    source.intake()
    assert label(source, "hr/pay.txt") == "CONFIDENTIAL"


def test_a_label_for_nothing_is_an_error_only_above_the_default() -> None:
    table = load_metadata_table(
        b"doc_id,sensitivity\ngone/a.txt,RESTRICTED\ngone/b.txt,INTERNAL\nhr/pay.txt,RESTRICTED\n"
    )
    assert len(lost_labels(table, {"hr/pay.txt"}, Sensitivity.INTERNAL)) == 1
    assert lost_labels(MetadataTable(), {"hr/pay.txt"}, Sensitivity.INTERNAL) == []
