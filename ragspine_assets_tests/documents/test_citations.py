"""Which document a citation names, in every spelling that people use (SPEC 5.2)."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.documents.citations import DocumentNames, cited_id, closed_citations, fold_path

CLOSED = "hr/Übersicht pay.txt"
KNOWN = {CLOSED, "open/notes.txt", "notes.txt"}

SPELLINGS = [
    CLOSED,
    f" {CLOSED} ",
    f"./{CLOSED}",
    f"/{CLOSED}",
    f"//{CLOSED}",
    f"{CLOSED}@v1",
    f"{CLOSED}@V12",
    f"{CLOSED}@v1#c0",
    f"{CLOSED}#para1",
    f"{CLOSED}#para1-3",
    f"{CLOSED}#page=2",
    f"{CLOSED}?page=2",
    f"{CLOSED}:12",
    f"{CLOSED}, para 3",
    f"{CLOSED} p. 4",
    f"{CLOSED} (version 2)",
    f"{CLOSED}!Sheet1",
    CLOSED.upper(),
    CLOSED.replace("/", "\\"),
    CLOSED.replace("/", "\\\\"),
    CLOSED.replace("/", "//"),
    CLOSED.replace("/", " / "),
    CLOSED.replace("/", "/./"),
    CLOSED.replace("/", "\u2215"),
    f"other/../{CLOSED}",
    f"../{CLOSED}",
    unicodedata.normalize("NFD", CLOSED),
    "hr/%C3%9Cbersicht%20pay.txt",
    "hr%2F%C3%9Cbersicht%20pay.txt#para2",
    f"file://{CLOSED}",
    f"file:///mnt/share/{CLOSED}",
    f"https://dms.example.org/files/{CLOSED}?v=1",
    f"C:\\data\\{CLOSED}",
    f"data/raw/{CLOSED}",
    "\uff48\uff52/\u00dcbersicht \uff50\uff41\uff59.txt",
    "\uff48\uff52\uff0f\u00dcbersicht pay\uff0etxt\uff03para1",
    "hr/\u200bÜbersicht pay.txt",
    "hr/Übersicht\u00a0pay.txt",
    "hr/Übersicht  pay.txt",
    "hr/Ubersicht pay.txt",
    "hr/Übersicht pay",
    "Übersicht pay.txt",
    "Übersicht pay",
    f'"{CLOSED}"',
    f"<{CLOSED}>",
    f"[{CLOSED}]",
    f"see {CLOSED}",
    f"see {CLOSED}, page 3",
    f"doc:{CLOSED}",
    f"source={CLOSED}#c4",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_closed_document_is_named_by_every_spelling_of_it(spelling: str) -> None:
    assert closed_citations([spelling], KNOWN, {CLOSED}) == {spelling}


@pytest.mark.parametrize(
    "citation",
    ["open/notes.txt", "open/notes.txt#para3", "notes.txt@v2#c1", "elsewhere.pdf", "https://example.org/report.pdf",
     "Annual report 2024, page 3", "hr", "hr/", "", "#para1"],
)  # fmt: skip
def test_what_names_another_document_or_none_is_not_closed(citation: str) -> None:
    assert closed_citations([citation], KNOWN, {CLOSED}) == set()


def test_the_very_id_of_an_open_document_names_no_closed_one() -> None:
    known = {"HR/pay.txt", "hr/pay.txt", "pay.txt"}
    closed = {"hr/pay.txt"}
    assert closed_citations(["HR/pay.txt#para1", "pay.txt", "hr/pay.txt"], known, closed) == {"hr/pay.txt"}


def test_doubt_protects() -> None:
    known = {"a/pay.txt", "b/pay.txt"}
    assert closed_citations(["pay.txt", "PAY"], known, {"b/pay.txt"}) == {"pay.txt", "PAY"}


def test_a_mark_inside_a_name_belongs_to_it() -> None:
    assert cited_id("c#1.txt#para2", {"c#1.txt", "c"}) == "c#1.txt"
    assert cited_id("c@v2", {"c@v2", "c"}) == "c@v2"
    assert cited_id("c@v2#c0", {"c"}) == "c"
    assert cited_id("d#c0", {"c"}) is None


def test_a_folder_means_its_documents_only_where_asked_for() -> None:
    names = DocumentNames(["hr/pay.txt", "hr/a/b.txt", "open.txt"])
    assert names.named("HR\\") == frozenset()
    assert names.named("HR\\", folders=True) == {"hr/pay.txt", "hr/a/b.txt"}
    assert names.named("/", folders=True) == frozenset()


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8), min_size=1, max_size=4
    ),
    st.sampled_from(["{}", "./{}", "/{}", "{}#para1-3", "{}@v3#c0", "/mnt/x/{}", "  {}  "]),
)
def test_any_id_is_named_by_its_own_spellings(parts: list[str], form: str) -> None:
    doc_id = unicodedata.normalize("NFC", "/".join(parts) + ".txt")
    if not fold_path(doc_id).removesuffix(".txt"):
        return
    assert closed_citations([form.format(doc_id)], {doc_id}, {doc_id})


@pytest.mark.parametrize("filler", ["#", "@v1#", "#c1", "%23"])
def test_a_citation_of_any_length_is_read_at_once(filler: str) -> None:
    started = time.process_time()
    citation = f"hr/pay.txt#{filler * 100_000}"
    assert cited_id(citation, {"hr/pay.txt"}) == "hr/pay.txt"
    assert cited_id(filler * 100_000, {"hr/pay.txt"}) is None
    assert time.process_time() - started < 2


@pytest.mark.parametrize("filler", ["/a #", "=\u0130&#\xa0", "../ #a", "a/", "%41 #"])
def test_a_citation_full_of_marks_and_slashes_is_looked_into_within_bounds(filler: str) -> None:
    started = time.process_time()
    assert not DocumentNames(["a/b.txt", "hr/pay.txt"]).named(filler * 1024)
    assert time.process_time() - started < 4
