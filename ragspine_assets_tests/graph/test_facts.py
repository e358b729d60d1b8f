"""Facts: reading them, and what the store keeps of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ragspine_assets.graph import Fact, FactsError, build_relation_graph, fact_table, facts_of, read_facts, write_facts
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store.references import references
from ragspine_assets_tests.documents.test_citations import CLOSED, SPELLINGS

from .conftest import Store, fact

HEADER = "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator"
ROW = "REV,NORD,FY,2024,1.5,EUR_M,annual.csv,annual.csv#row2"


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def test_a_csv_becomes_facts(tmp_path: Path) -> None:
    table = read_facts(write(tmp_path / "f.csv", HEADER, ROW))
    assert facts_of(table) == [fact()]


def test_columns_may_stand_in_any_order_and_a_bom_is_no_part_of_a_name(tmp_path: Path) -> None:
    columns = list(reversed(HEADER.split(",")))
    path = write(tmp_path / "f.csv", ",".join(columns), ",".join(reversed(ROW.split(","))), encoding="utf-8-sig")
    assert facts_of(read_facts(path)) == [fact()]


def test_codes_stay_as_written(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", HEADER, "007,NA,FY,2024,1e3,,annual.csv,annual.csv#row2")
    (row,) = facts_of(read_facts(path))
    assert (row.metric_code, row.entity, row.period, row.value, row.unit) == ("007", "NA", "2024", 1000.0, "")


def test_a_folder_is_read_whole_and_names_and_order_do_not_matter(tmp_path: Path) -> None:
    other = "REV,SUD,FY,2024,2,EUR_M,annual.csv,annual.csv#row3"
    one = tmp_path / "one"
    write(one / "a.csv", HEADER, ROW)
    write(one / "deep" / "b.CSV", HEADER, other, ROW)
    write(one / ".hidden.csv", "nonsense")
    write(one / "notes.txt", "nonsense")
    two = tmp_path / "two"
    write(two / "z.csv", HEADER, other)
    write(two / "y.csv", HEADER, ROW)
    assert read_facts(one).equals(read_facts(two))
    assert read_facts(one).num_rows == 2


def test_parquet_gives_the_same_facts_as_csv(tmp_path: Path) -> None:
    csv = read_facts(write(tmp_path / "f.csv", HEADER, ROW))
    frame = csv.to_pandas()
    frame["period"] = 2024
    frame.to_parquet(tmp_path / "f.parquet")
    assert read_facts(tmp_path / "f.parquet").equals(csv)


def test_a_year_that_parquet_holds_as_a_float_is_a_year(tmp_path: Path) -> None:
    frame = read_facts(write(tmp_path / "f.csv", HEADER, ROW)).to_pandas()
    frame["period"] = 2024.0
    frame.to_parquet(tmp_path / "f.parquet")
    assert facts_of(read_facts(tmp_path / "f.parquet"))[0].period == "2024"


def test_empty_files_and_empty_folders_hold_no_facts(tmp_path: Path) -> None:
    write(tmp_path / "facts" / "empty.csv")
    write(tmp_path / "facts" / "header.csv", HEADER)
    assert read_facts(tmp_path / "facts").num_rows == 0


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    assert read_facts(write(tmp_path / "f.csv", HEADER, "", ROW, "")).num_rows == 1


def test_wrong_columns_are_named_together_with_those_allowed(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", HEADER.replace("unit", "currency"), ROW)
    with pytest.raises(FactsError) as caught:
        read_facts(path)
    message = str(caught.value)
    assert message.startswith("f.csv: column 6 is unknown; column 'unit' is missing")
    assert "currency" not in message
    assert "metric_code, entity, period_type, period, value, unit, source_doc_id, source_locator" in message


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", HEADER + ",unit", ROW + ",x")
    with pytest.raises(FactsError, match="'unit' is there twice"):
        read_facts(path)


@pytest.mark.parametrize("column", ["metric_code", "entity", "source_doc_id", "source_locator"])
def test_a_row_without_name_or_source_is_refused_with_its_line(tmp_path: Path, column: str) -> None:
    cells = dict(zip(HEADER.split(","), ROW.split(","), strict=True)) | {column: " "}
    with pytest.raises(FactsError, match=rf"f\.csv, line 3: {column} is empty"):
        read_facts(write(tmp_path / "f.csv", HEADER, ROW, ",".join(cells.values())))


def test_lines_are_counted_through_cells_that_span_several(tmp_path: Path) -> None:
    spanning = ROW.replace("EUR_M", '"EUR\nmillions"')
    with pytest.raises(FactsError, match="line 4"):
        read_facts(write(tmp_path / "f.csv", HEADER, spanning, ROW.replace("1.5", "many")))


@pytest.mark.parametrize("value", ["topsecret", "1,5", "1_000", "nan", "inf", "", "0x10", "٣"])
def test_a_wrong_number_is_refused_with_its_line_and_without_the_cell(tmp_path: Path, value: str) -> None:
    with pytest.raises(FactsError, match=r"f\.csv, line 2: value is not a finite number") as caught:
        read_facts(write(tmp_path / "f.csv", HEADER, ROW.replace("1.5", f'"{value}"')))
    assert "topsecret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("rows", [[ROW + ",topsecret"], [ROW, ROW + ",topsecret"]])
def test_a_row_with_too_many_cells_is_refused_without_quoting_it(tmp_path: Path, rows: list[str]) -> None:
    with pytest.raises(FactsError, match="more cells") as caught:
        read_facts(write(tmp_path / "f.csv", HEADER, *rows))
    assert "topsecret" not in str(caught.value)


def test_a_file_that_is_not_utf8_is_refused_without_quoting_it(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", HEADER, ROW.replace("NORD", "Zürich"), encoding="latin-1")
    with pytest.raises(FactsError, match=r"f\.csv: not UTF-8") as caught:
        read_facts(path)
    assert "rich" not in str(caught.value)


def test_a_broken_parquet_file_and_a_missing_path_are_named(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match=r"f\.parquet: not a readable Parquet file"):
        read_facts(write(tmp_path / "f.parquet", "topsecret"))
    with pytest.raises(FactsError, match="no such file"):
        read_facts(tmp_path / "gone.csv")
    with pytest.raises(FactsError, match=r"\.csv or \.parquet"):
        read_facts(tmp_path / "facts.xlsx")


def test_the_document_of_a_fact_is_named_as_the_store_names_it(tmp_path: Path) -> None:
    decomposed = ROW.replace("annual.csv,", "cafe\u0301.csv,")
    assert facts_of(read_facts(write(tmp_path / "f.csv", HEADER, decomposed)))[0].source_doc_id == "caf\u00e9.csv"


def test_only_differences_are_written(store: Store) -> None:
    first = write_facts(store.con, fact_table([fact(), fact(entity="SUD")]))
    again = write_facts(store.con, fact_table([fact(entity="SUD"), fact()]))
    less = write_facts(store.con, fact_table([fact()]))
    assert (first.rows, first.added, first.removed, first.written) == (2, 2, 0, True)
    assert (again.rows, again.added, again.removed, again.written) == (2, 0, 0, False)
    assert (less.rows, less.added, less.removed, less.written) == (1, 0, 1, True)
    assert first.digest == again.digest != less.digest


def test_facts_of_restricted_documents_are_not_stored(store: Store) -> None:
    store.add("secret.txt", "text", label="RESTRICTED")
    store.add("odd.txt", "text", label="whatever")
    sly = fact("open.csv")
    rows = [fact("secret.txt"), fact("odd.txt"), fact("open.csv"), fact("unknown.csv")]
    rows.append(type(sly)(**{**vars(sly), "source_locator": "secret.txt#para1"}))
    report = write_facts(store.con, fact_table(rows))
    kept = store.con.execute("SELECT source_doc_id, source_locator FROM fact ORDER BY ALL").fetchall()
    assert kept == [("open.csv", "open.csv#row2"), ("unknown.csv", "unknown.csv#row2")]
    assert report.rows == 2


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_facts_of_a_restricted_document_are_not_stored_however_they_spell_it(store: Store, spelling: str) -> None:
    store.add(CLOSED, "text", label="RESTRICTED")
    store.add("open.txt", "text")
    rows = [
        Fact("REV", "NORD", "FY", "2024", 1.0, "EUR", spelling, "para1"),
        Fact("REV", "NORD", "FY", "2024", 2.0, "EUR", "open.txt", spelling),
        Fact("REV", "NORD", "FY", "2024", 3.0, "EUR", "open.txt@v1", "open.txt#para1"),
    ]
    assert write_facts(store.con, fact_table(rows)).rows == 1
    # It is stored under the very id, so that a label that is raised later takes it along.
    assert store.con.execute("SELECT source_doc_id FROM fact").fetchall() == [("open.txt",)]


@pytest.mark.parametrize("wrapped", ["{}", "{}#para1", "see {}", "{}@v1", "<{}>"])
def test_facts_that_cite_the_reference_of_a_restricted_document_are_not_stored(store: Store, wrapped: str) -> None:
    store.add("secret.txt", "text", label="RESTRICTED")
    store.add("open.txt", "text")
    name = references(store.con)
    closed = wrapped.format(name("secret.txt"))
    rows = [fact(closed), fact(closed.upper()), fact("open.txt"), fact("doc:0123456789ab")]
    write_facts(store.con, fact_table(rows))
    kept = store.con.execute("SELECT source_doc_id FROM fact ORDER BY ALL").fetchall()
    assert kept == [("doc:0123456789ab",), ("open.txt",)]


def test_a_spelling_of_its_own_does_not_make_a_confidential_document_internal(store: Store) -> None:
    store.add("a/plan.txt", "text", label="CONFIDENTIAL")
    store.add("b/plan.txt", "text", label="CONFIDENTIAL")
    rows = [fact("A\\Plan.txt"), fact("plan.txt")]
    assert write_facts(store.con, fact_table(rows)).rows == 1
    assert store.con.execute("SELECT source_doc_id FROM fact").fetchall() == [("a/plan.txt",)]


def test_facts_whose_document_was_raised_since_are_taken_out(store: Store) -> None:
    store.add("report.txt", "text")
    write_facts(store.con, fact_table([fact("report.txt")]))
    store.relabel("report.txt", "RESTRICTED")
    report = write_facts(store.con, fact_table([fact("report.txt")]))
    assert (report.rows, report.removed) == (0, 1)


def test_a_frame_of_pandas_with_missing_text_is_read_as_empty_text(tmp_path: Path) -> None:
    frame = read_facts(write(tmp_path / "f.csv", HEADER, ROW)).to_pandas()
    frame.loc[0, "unit"] = None
    frame["period"] = pd.to_datetime(["2024-03-31"])
    frame.to_parquet(tmp_path / "f.parquet")
    (row,) = facts_of(read_facts(tmp_path / "f.parquet"))
    assert (row.unit, row.period) == ("", "2024-03-31")


@pytest.mark.parametrize("place", ["Annex 5²", "Annex 5③", "Annex 5٣", "para2²"])
def test_two_facts_of_one_edge_may_be_cited_by_any_digits(store: Store, profile: DomainProfile, place: str) -> None:
    facts = [fact(place=place), fact(place=place.replace("5", "10"))]
    graph = build_relation_graph(profile, facts=facts, store=store.con)
    (edge,) = [edge for edge in graph.edges() if edge.dst == "REV"]
    assert [one.source_locator for one in graph.evidence(edge)] == list(
        dict.fromkeys(one.source_locator for one in facts)
    )
