"""A table without a header must not get its first row into a message (SPEC 6.1)."""

from pathlib import Path

import pytest

from ragspine_assets.documents.headers import header_problems
from ragspine_assets.documents.metadata import MetadataError, load_metadata_table
from ragspine_assets.graph import FactsError, ReviewError, read_decisions, read_facts

SECRETS = ("board/seerose.md", "Projekt Seerose", "4711", "RESTRICTED", "seerose")
ROW = ",".join((*SECRETS, "x", "y", "z"))


def metadata(path: Path) -> object:
    return load_metadata_table(path)


@pytest.mark.parametrize("read", [metadata, read_facts, read_decisions])
@pytest.mark.parametrize(
    "header", [ROW, f"doc_id,{ROW}", f"{ROW},src,metric_code", f"src,type,dst,verdict,who,when,{ROW}"]
)
def test_no_cell_of_a_wrong_header_is_quoted(tmp_path: Path, read, header: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n{ROW}\n")
    with pytest.raises((MetadataError, FactsError, ReviewError)) as caught:
        read(path)
    assert not [secret for secret in SECRETS if secret in str(caught.value).replace("PUBLIC, INTERNAL", "")]


def test_an_unknown_column_is_told_by_number_and_nearest_known_name() -> None:
    assert header_problems(["doc_id", "sensitivty", "colour"], ["doc_id", "sensitivity"], ["sensitivity"]) == [
        "column 2 is unknown (is 'sensitivity' meant?)",
        "column 3 is unknown",
    ]


def test_a_table_without_a_header_is_told_so() -> None:
    assert "does it have a header?" in header_problems(list(SECRETS), ["doc_id", "title"])[0]


def test_a_missing_and_a_repeated_column_are_named_since_these_names_are_ours() -> None:
    assert header_problems(["title", "title"], ["doc_id", "title"]) == [
        "column 'doc_id' is missing",
        "column 'title' is there twice",
    ]
