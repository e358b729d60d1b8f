import pickle
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.documents.frontmatter import FrontMatter
from ragspine_assets.documents.metadata import (
    MetadataError,
    MetadataTable,
    load_metadata_table,
    metadata_table_of,
    resolve_metadata,
)
from ragspine_assets.policy import LabelVerdict, Sensitivity, read_label

INTERNAL = LabelVerdict("INTERNAL", "default level of the policy")
RESTRICTED = LabelVerdict("RESTRICTED", "keyword 1 of the policy")


def table(text: str) -> MetadataTable:
    return load_metadata_table(text.encode())


def front(**values: str) -> FrontMatter:
    return FrontMatter(block="x", values=values)


def test_an_exact_path_wins_over_globs_and_the_last_glob_over_the_others():
    rows = table("doc_id,title\n**/*.md,any\na/*.md,in a\na/x.md,this\n**/x.md,x\n")
    titles = {
        doc_id: resolve_metadata(doc_id, table=rows, verdict=INTERNAL).title
        for doc_id in ("a/x.md", "b/x.md", "a/y.md", "a/b/y.md", "y.md", "y.txt")
    }
    assert titles == {"a/x.md": "this", "b/x.md": "x", "a/y.md": "in a", "a/b/y.md": "any", "y.md": "any", "y.txt": ""}


def test_each_name_takes_its_first_value_in_the_order_of_the_sources():
    rows = table("doc_id,title,topic,entity\nFY2024.md,,,E1\n*.md,,T2,E2\n")
    found = resolve_metadata(
        "FY2024.md",
        table=rows,
        verdict=INTERNAL,
        front_matter=front(title="F3", topic="T3", entity="E3", geography="G3"),
        file_title="F4",
    )
    assert (found.title, found.topic, found.entity, found.geography, found.period) == ("F3", "T2", "E1", "G3", "FY2024")
    assert (found.language, found.valid_as_of) == ("", "")


def test_what_nobody_said_is_empty():
    found = resolve_metadata("notes 2024.txt", table=MetadataTable(), verdict=INTERNAL)
    assert (
        found.title,
        found.topic,
        found.entity,
        found.geography,
        found.period,
        found.language,
        found.valid_as_of,
    ) == ("",) * 7


def test_the_title_of_the_file_is_one_line():
    assert (
        resolve_metadata("a", table=MetadataTable(), verdict=INTERNAL, file_title=" A\r\n\x00title\t ").title
        == "A title"
    )


def test_an_exact_row_may_lower_a_label():
    rows = table("doc_id,sensitivity\na.md,PUBLIC\n")
    found = resolve_metadata("a.md", table=rows, verdict=RESTRICTED, front_matter=front(sensitivity="CONFIDENTIAL"))
    assert (found.sensitivity, found.label_reason) == ("PUBLIC", "row of metadata.csv")


def test_a_glob_row_and_front_matter_may_only_raise():
    rows = table("doc_id,sensitivity\n*.md,PUBLIC\n*.txt,CONFIDENTIAL\n")
    assert resolve_metadata("a.md", table=rows, verdict=RESTRICTED).sensitivity == "RESTRICTED"
    assert resolve_metadata("a.md", table=rows, verdict=INTERNAL).label_reason == "default level of the policy"
    raised = resolve_metadata("a.txt", table=rows, verdict=INTERNAL)
    assert (raised.sensitivity, raised.label_reason) == ("CONFIDENTIAL", "glob row of metadata.csv")
    raised = resolve_metadata("a.txt", table=rows, verdict=INTERNAL, front_matter=front(sensitivity="restricted"))
    assert (raised.sensitivity, raised.label_reason) == ("RESTRICTED", "front matter")
    lowered = resolve_metadata("b", table=rows, verdict=INTERNAL, front_matter=front(sensitivity="PUBLIC"))
    assert lowered.sensitivity == "INTERNAL"


labels = st.sampled_from([None, "PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED", "", "secret"])


@settings(max_examples=500, deadline=None, database=None)
@given(labels, labels, labels, st.sampled_from(["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]), st.booleans())
def test_only_an_exact_row_ever_lowers_a_label(row, glob, matter, verdict, parsed):
    exact = {} if row is None else {"a.md": {"sensitivity": row}}
    globs = () if glob is None else (("*.md", {"sensitivity": glob}),)
    found = resolve_metadata(
        "a.md",
        table=MetadataTable(exact, globs),
        verdict=LabelVerdict(verdict, "policy"),
        front_matter=FrontMatter(
            values={} if matter is None else {"sensitivity": matter}, problem="" if parsed else "broken"
        ),
    )
    said = [label for label in (glob, matter) if label is not None]
    if row is not None:
        assert found.sensitivity == read_label(row)
    else:
        expected = max((read_label(label) for label in [verdict, *said]), key=lambda label: label.rank)
        assert found.sensitivity == (expected if parsed else Sensitivity.RESTRICTED)
    assert found.label_reason
    assert len(found.problems) == (not parsed) + sum(label in {"", "secret"} for label in (row, glob, matter))


@pytest.mark.parametrize("cell", ["", " ", "SECRET", "PUBLIC?", "INTERNAL CONFIDENTIAL"])
def test_a_label_outside_the_lattice_is_restricted_and_reported_without_quoting_it(cell):
    found = resolve_metadata("a.md", table=table(f"doc_id,sensitivity\na.md,{cell}\n"), verdict=INTERNAL)
    assert found.sensitivity == "RESTRICTED"
    assert len(found.problems) == 1
    assert "SECRET" not in found.problems[0]


def test_a_row_without_a_label_column_says_nothing_about_the_label():
    found = resolve_metadata("a.md", table=table("doc_id,title\na.md,T\n"), verdict=INTERNAL)
    assert (found.sensitivity, found.label_reason, found.problems) == ("INTERNAL", "default level of the policy", ())


def test_front_matter_that_cannot_be_parsed_restricts_and_is_reported():
    broken = FrontMatter(problem="the front matter is no valid YAML")
    found = resolve_metadata("a.md", table=MetadataTable(), verdict=INTERNAL, front_matter=broken)
    assert (found.sensitivity, found.label_reason) == ("RESTRICTED", "front matter that cannot be parsed")
    assert found.problems == ("the front matter is no valid YAML",)
    decided = resolve_metadata(
        "a.md", table=table("doc_id,sensitivity\na.md,INTERNAL\n"), verdict=INTERNAL, front_matter=broken
    )
    assert decided.sensitivity == "INTERNAL"
    assert decided.problems


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encodings_that_a_spreadsheet_writes_are_read(encoding):
    rows = load_metadata_table("doc_id,title\r\nè.md,机密 \r\n\r\n".encode(encoding))
    assert rows.row_for("è.md") == {"title": "机密"}


def test_another_encoding_is_an_error_that_says_what_to_do():
    with pytest.raises(MetadataError, match="save it as 'CSV UTF-8'"):
        load_metadata_table("doc_id,title\nè.md,x\n".encode("cp1252"))


def test_a_path_is_compared_in_nfc():
    rows = table(f"doc_id,title\n./{unicodedata.normalize('NFD', 'é.md')},T\n{unicodedata.normalize('NFD', 'ü')}*,G\n")
    assert resolve_metadata("é.md", table=rows, verdict=INTERNAL).title == "T"
    assert resolve_metadata("übung", table=rows, verdict=INTERNAL).title == "G"


def test_an_unknown_column_is_an_error_that_numbers_it_and_names_the_allowed_ones():
    with pytest.raises(MetadataError, match=r"column 2 is unknown; column 4 is unknown.*allowed are doc_id, title"):
        table("doc_id,author,title,Colour\n")


def test_columns_separated_by_semicolons_are_an_error_that_says_so():
    with pytest.raises(MetadataError, match="not separated by commas"):
        table("doc_id;title\na;b\n")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("title\nx\n", "column 'doc_id' is missing"),
        ("doc_id,title,title\n", "column 'title' is there twice"),
        ("doc_id,title\n,zzz\n", "line 2 has no doc_id"),
        ("doc_id,title\na,zzz,c\n", "line 2 has more cells"),
        ("doc_id,title\na,zzz\nb,y\na,q\n", "lines 2 and 4 are about the same doc_id"),
        ('doc_id,title\na,"zzz', "no valid CSV"),
    ],
)
def test_a_faulty_row_is_an_error_that_names_its_line_and_quotes_no_cell(text, part):
    with pytest.raises(MetadataError, match=part) as caught:
        table(text)
    assert "zzz" not in str(caught.value)


def test_the_same_row_twice_is_one_row():
    assert table("doc_id,title\na,x\na, x \n").row_for("a") == {"title": "x"}


@pytest.mark.parametrize("text", ["", "\n\n", "doc_id,title\n", "\ufeff"])
def test_a_table_without_rows_is_empty(text):
    rows = table(text)
    assert (dict(rows.exact), rows.globs, rows.unmatched(["a"])) == ({}, (), ())


def test_a_row_that_matches_no_document_is_reported_in_the_order_of_the_file():
    rows = table("doc_id,title\nz.md,1\n*.md,2\n*.pdf,3\nb.md,4\n[x].md,5\n")
    assert rows.unmatched({"b.md", "c.md", "[x].md"}) == ("z.md", "*.pdf")


def test_a_row_may_name_a_file_that_looks_like_a_glob():
    rows = table("doc_id,sensitivity\nreport[1].pdf,PUBLIC\n")
    assert resolve_metadata("report[1].pdf", table=rows, verdict=INTERNAL).sensitivity == "PUBLIC"
    assert resolve_metadata("report1.pdf", table=rows, verdict=INTERNAL).sensitivity == "INTERNAL"


def test_names_with_comma_quote_newline_and_hash_are_found():
    name = 'a, "b"\n#c@d.md'
    quoted = '"' + name.replace('"', '""') + '"'
    rows = table(f"doc_id,title\n{quoted},T\n")
    assert rows.row_for(name) == {"title": "T"}
    assert rows.lines == {name: 2}


def test_a_table_travels_between_processes():
    rows = table("doc_id,title\na,1\n*.md,2\n")
    rows.globs_for("x")
    copy = pickle.loads(pickle.dumps(rows))
    assert copy.row_for("a") == {"title": "1"}
    assert copy.globs_for("b.md") == {"title": "2"}


def test_a_folder_without_metadata_has_an_empty_table(tmp_path: Path) -> None:
    assert metadata_table_of(tmp_path) == MetadataTable()
    assert metadata_table_of(tmp_path / "gone") == MetadataTable()


def test_metadata_that_is_there_and_cannot_be_read_is_an_error_and_not_an_empty_table(tmp_path: Path) -> None:
    # A link to itself cannot be read by anybody, by root neither.
    (tmp_path / "metadata.csv").symlink_to("metadata.csv")
    with pytest.raises(MetadataError, match=r"metadata.csv of the source cannot be read"):
        metadata_table_of(tmp_path)
