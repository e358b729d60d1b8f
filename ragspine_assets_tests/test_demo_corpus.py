"""The demo corpus is what the script makes, holds every kind of document there has to be, and keeps its secrets."""

from __future__ import annotations

import csv
import importlib.util
import re
import shutil
import sys
import tomllib
import unicodedata
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from ragspine_assets.documents.normalise import paragraphs
from ragspine_assets_tests.demo_secrets import RESTRICTED, RESTRICTED_ONLY_CODES, SECRETS

pytest.importorskip("docx", reason="the script that makes the corpus needs the extra demo")
pytest.importorskip("reportlab", reason="the script that makes the corpus needs the extra demo")

PROJECT = Path(__file__).resolve().parents[1]
DATA = PROJECT / "data"
CORPUS = DATA / "raw"

PASSED_OVER = {
    "sites/.sync-state",
    "sites/skerravoe/adcp-sample.bin",
    "reports/~$half-year-review-2025H1.docx",
    "metadata.csv",
}
ENCRYPTED = "sites/skerravoe/seabed-survey-2024.pdf"
EMPTY = "sites/lanmen/placeholder.txt"
LOWERED = "hr/salary-sacrifice-cycle-scheme.md"
PLANNED = "reports/half-year-review-2026H1.docx"
EXTERNAL_SOURCE = "archive/annual-review-FY2023.pdf"
ENCODINGS = {
    "safety/avviso-sicurezza-SN-2025-03.txt": "cp1252",
    "safety/安全のお知らせ-SN-2025-03.txt": "shift_jis",
    "safety/安全通告-SN-2025-03.txt": "utf-16",
}
LANGUAGES = {"en", "it", "zh", "ja"}
LABELS = {"PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"}


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_demo_corpus", PROJECT / "scripts" / "make_demo_corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()


@cache
def documents() -> tuple[str, ...]:
    found = (path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*") if path.is_file())
    return tuple(sorted(doc_id for doc_id in found if doc_id not in PASSED_OVER))


@cache
def extracted(doc_id: str) -> str:
    """The text of a document, read by other code than the project's own, front matter taken off."""
    import kreuzberg

    path = CORPUS / doc_id
    if path.suffix in {".md", ".txt", ".rst"}:
        text = path.read_bytes().decode(ENCODINGS.get(doc_id, "utf-8"))
        return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    return kreuzberg.extract_file_sync(path, config=config).content


def front_matter(doc_id: str) -> dict[str, str]:
    found = re.match(r"---\n(.*?)\n---\n", (CORPUS / doc_id).read_text(encoding="utf-8"), flags=re.DOTALL)
    return dict(line.split(": ", 1) for line in found[1].split("\n")) if found else {}


def rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def metadata() -> dict[str, dict[str, str]]:
    return {row["doc_id"]: row for row in rows(CORPUS / "metadata.csv")}


def facts() -> list[dict[str, str]]:
    return [row for path in sorted((DATA / "facts").glob("*.csv")) for row in rows(path)]


def profile() -> dict[str, dict[str, object]]:
    return tomllib.loads((DATA / "profile.toml").read_text(encoding="utf-8"))


def folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(sign for sign in plain if unicodedata.category(sign) != "Cf").split())


@cache
def project_texts() -> dict[str, str]:
    """Every text file of the project that is no document of the corpus, by path."""
    found: dict[str, str] = {}
    for path in PROJECT.rglob("*"):
        parts = path.relative_to(PROJECT).parts
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if hidden or parts[:2] in {("data", "raw"), ("data", "stores"), ("data", "snapshots")}:
            continue
        if path.suffix in {".py", ".md", ".txt", ".toml", ".csv", ".tsv", ".yaml"} and path.is_file():
            found["/".join(parts)] = path.read_text(encoding="utf-8")
    found["data/raw/metadata.csv"] = (CORPUS / "metadata.csv").read_text(encoding="utf-8")
    return found


# --- the script ---------------------------------------------------------------------------------------------------


def test_the_files_on_disk_are_what_the_script_makes_to_the_byte() -> None:
    assert list(SCRIPT.differing(CORPUS)) == []


def test_the_check_names_a_file_that_was_edited_and_one_that_is_missing(tmp_path: Path) -> None:
    shutil.copytree(CORPUS, tmp_path / "raw")
    edited, missing = "safety/密闭空间救援预案.pdf", "sites/energy-log-FY2025.xlsx"
    with (tmp_path / "raw" / edited).open("ab") as file:
        file.write(b"\n")
    (tmp_path / "raw" / missing).unlink()
    assert sorted(SCRIPT.differing(tmp_path / "raw")) == sorted([edited, missing])


def test_the_check_exits_with_1_when_files_differ_and_writes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["make_demo_corpus.py", "--check", "--root", str(tmp_path)])
    assert SCRIPT.main() == 1
    assert ENCRYPTED in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_every_binary_file_is_made_by_the_script() -> None:
    text_types = {".md", ".txt", ".html", ".csv", ".rst", ".eml", ""}
    by_hand = {doc_id for doc_id in documents() if Path(doc_id).suffix not in text_types}
    assert by_hand <= set(SCRIPT.made_files())


# --- what is there ------------------------------------------------------------------------------------------------


def test_there_are_more_than_36_documents_in_eleven_formats_of_moderate_size() -> None:
    assert len(documents()) >= 36
    suffixes = {Path(doc_id).suffix for doc_id in documents()}
    assert suffixes == {
        f".{name}" for name in ["md", "html", "txt", "pdf", "docx", "pptx", "csv", "xlsx", "eml", "rst", "epub"]
    }
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 2_500_000


def test_files_that_have_to_be_passed_over_are_there() -> None:
    assert all((CORPUS / path).is_file() for path in PASSED_OVER)


def test_doc_ids_are_nfc() -> None:
    assert [doc_id for doc_id in documents() if not unicodedata.is_normalized("NFC", doc_id)] == []


def test_one_file_name_occurs_in_several_folders() -> None:
    assert sum(Path(doc_id).name == "notes.txt" for doc_id in documents()) >= 2


def test_the_empty_file_has_no_paragraph_and_every_other_document_has_some() -> None:
    blank = [doc_id for doc_id in documents() if doc_id != ENCRYPTED and not paragraphs(extracted(doc_id))]
    assert blank == [EMPTY]


def test_the_encrypted_pdf_opens_with_its_password_only() -> None:
    import kreuzberg
    import pikepdf

    with pytest.raises(kreuzberg.ParsingError, match="password"):
        extracted(ENCRYPTED)
    with pikepdf.open(CORPUS / ENCRYPTED, password=SCRIPT.PDF_PASSWORD) as pdf:
        assert len(pdf.pages) == 1


@pytest.mark.parametrize(("doc_id", "encoding"), ENCODINGS.items())
def test_a_legacy_file_is_in_its_encoding_and_not_in_utf_8(doc_id: str, encoding: str) -> None:
    data = (CORPUS / doc_id).read_bytes()
    with pytest.raises(UnicodeDecodeError):
        data.decode("utf-8")
    expected = SCRIPT.read_source(Path(doc_id).name)
    assert data.decode(encoding).replace("\r\n", "\n") == expected


@pytest.mark.parametrize(
    ("doc_id", "pages"),
    [
        ("reports/annual-review-FY2024.pdf", 5),
        ("products/vm-1200-保守手順書.pdf", 5),
        ("reports/業績報告-2025H1.pdf", 3),
        ("safety/密闭空间救援预案.pdf", 2),
    ],
)
def test_kreuzberg_finds_every_page_of_a_pdf(doc_id: str, pages: int) -> None:
    import kreuzberg

    config = kreuzberg.ExtractionConfig(use_cache=False, pages=kreuzberg.PageConfig(extract_pages=True))
    found = kreuzberg.extract_file_sync(CORPUS / doc_id, config=config).pages
    assert len(found or []) == pages


def test_the_deck_has_six_slides_each_with_a_title_and_content() -> None:
    from pptx import Presentation

    deck = Presentation(str(CORPUS / "market/competitor-briefing-FY2025.pptx"))
    assert len(deck.slides) == 6
    assert all(slide.shapes.title is not None and len(slide.shapes) >= 2 for slide in deck.slides)


def made_from_a_source() -> list[str]:
    readable = {".pdf", ".docx", ".pptx", ".epub"}
    made = (doc_id for doc_id in SCRIPT.made_files() if Path(doc_id).suffix in readable)
    return sorted(doc_id for doc_id in made if doc_id not in PASSED_OVER | {ENCRYPTED})


@pytest.mark.parametrize("doc_id", made_from_a_source())
def test_kreuzberg_reads_every_character_of_a_made_document_back(doc_id: str) -> None:
    blocks = SCRIPT.blocks(SCRIPT.read_source(f"{Path(doc_id).stem}.md"))
    if doc_id.endswith(".epub"):
        blocks = (block for block in blocks if block.level != 1)  # the book's title is metadata
    source = "".join(block.text + "".join(map("".join, block.rows)) for block in blocks)
    straight = str.maketrans("“”’", '""\'')
    lost = Counter("".join(source.split()).translate(straight))
    lost -= Counter("".join(extracted(doc_id).split()).translate(straight))
    assert lost == Counter()


def test_a_word_document_has_headings_and_a_table() -> None:
    text = extracted("products/vm-400-manuale.docx")
    assert "\n### 4.1 Intervalli\n" in text.replace("\\", "")
    assert "| Potenza nominale | 400 kW a 2,4 m/s |" in text


# --- metadata and labels --------------------------------------------------------------------------------------------


def test_one_row_of_the_metadata_matches_no_file_and_every_other_one_does() -> None:
    unmatched = [
        name for name in metadata() if not any(fnmatchcase(doc_id, name) or doc_id == name for doc_id in documents())
    ]
    assert unmatched == [PLANNED]


def test_every_row_of_the_metadata_has_a_label_of_the_lattice() -> None:
    assert {row["sensitivity"] for row in metadata().values()} == LABELS


def test_one_document_has_a_front_matter_with_every_field() -> None:
    fields = set(next(iter(metadata().values()))) - {"doc_id"}
    assert fields <= set(front_matter("reports/annual-review-FY2025.md"))


def test_every_restricted_document_exists_and_all_reasons_occur() -> None:
    assert set(RESTRICTED) <= set(documents())
    assert set(RESTRICTED.values()) == {
        "exact row", "glob row", "front matter", "file name", "keyword", "unknown label"
    }  # fmt: skip


def policy_verdict(doc_id: str) -> str:
    policy = profile()["sensitivity"]
    patterns, keywords = policy["restricted_filename_patterns"], policy["restricted_keywords"]
    assert isinstance(patterns, list)
    assert isinstance(keywords, list)
    if any(pattern in doc_id.casefold() for pattern in patterns):
        return "file name"
    if doc_id != ENCRYPTED and any(keyword.casefold() in folded(extracted(doc_id)) for keyword in keywords):
        return "keyword"
    return ""


@pytest.mark.parametrize("doc_id", documents())
def test_a_document_is_restricted_for_the_reason_that_is_listed_and_no_other_is(doc_id: str) -> None:
    exact = metadata().get(doc_id, {}).get("sensitivity", "")
    globs = [row["sensitivity"] for name, row in metadata().items() if "*" in name and fnmatchcase(doc_id, name)]
    own = front_matter(doc_id).get("sensitivity", "") if doc_id.endswith(".md") else ""
    reasons = {
        "exact row": exact == "RESTRICTED",
        "glob row": bool(globs) and globs[-1] == "RESTRICTED",
        "front matter": own == "RESTRICTED",
        "unknown label": own not in LABELS | {""},
        policy_verdict(doc_id): policy_verdict(doc_id) != "",
    }
    found = [] if exact not in {"", "RESTRICTED"} else [reason for reason, holds in reasons.items() if holds]
    assert found == ([RESTRICTED[doc_id]] if doc_id in RESTRICTED else [])


def test_an_exact_row_lowers_what_the_file_name_would_have_made_restricted() -> None:
    assert policy_verdict(LOWERED) == "file name"
    assert metadata()[LOWERED]["sensitivity"] == "INTERNAL"


@pytest.mark.parametrize("doc_id", [doc_id for doc_id, reason in RESTRICTED.items() if reason == "keyword"])
def test_a_plain_search_for_the_keywords_misses_how_they_are_spelled(doc_id: str) -> None:
    keywords = profile()["sensitivity"]["restricted_keywords"]
    assert isinstance(keywords, list)
    assert not any(
        keyword.casefold() in (CORPUS / doc_id).read_text(encoding="utf-8").casefold() for keyword in keywords
    )


# --- profile, facts, questions --------------------------------------------------------------------------------------


def test_the_profile_names_five_entities_and_three_competitors_in_several_scripts() -> None:
    home, external = profile()["home"], profile()["external_entities"]
    assert isinstance(home["synonyms"], dict)
    assert set(home["synonyms"].values()) == set(home["geography"]) == set(home["labels"])  # type: ignore[call-overload]
    assert len(set(home["synonyms"].values())) == 5
    assert len(set(external.values())) == 3
    assert all(any(not alias.isascii() for alias in names) for names in (home["synonyms"], external))


def test_facts_have_the_columns_of_the_contract_and_number_about_forty_or_more() -> None:
    expected = ["metric_code", "entity", "period_type", "period", "value", "unit", "source_doc_id", "source_locator"]
    assert all(list(row) == expected for row in facts())
    assert len(facts()) >= 40


def test_one_fact_comes_from_a_document_that_the_corpus_does_not_hold() -> None:
    unknown = [row["source_doc_id"] for row in facts() if row["source_doc_id"] not in documents()]
    assert unknown == [EXTERNAL_SOURCE]


def test_the_number_of_every_fact_stands_in_the_text_of_its_document() -> None:
    missing = []
    for row in facts():
        if row["source_doc_id"] in {EXTERNAL_SOURCE, "strategy/打合せメモ.txt"}:  # the latter spells numbers out
            continue
        number = float(row["value"])
        spellings = {row["value"], f"{number:,.1f}", f"{number:,.0f}" if number.is_integer() else ""}
        spellings |= {spelling.replace(".", ",") for spelling in spellings}
        text = extracted(row["source_doc_id"])
        if not any(re.search(rf"(?<![\d.,]){re.escape(s)}(?![\d]|[.,]\d)", text) for s in spellings if s):
            missing.append((row["source_doc_id"], row["value"]))
    assert missing == []


def test_the_locator_of_a_fact_from_a_plain_document_names_a_paragraph_with_its_number() -> None:
    wrong = []
    for row in facts():
        doc_id, _, place = row["source_locator"].partition("#para")
        assert doc_id == row["source_doc_id"]
        if Path(doc_id).suffix in {".md", ".txt"} and doc_id not in RESTRICTED:
            paragraph = paragraphs(extracted(doc_id))[int(place) - 1].replace(",", "")
            if f"{float(row['value']):g}" not in paragraph:
                wrong.append((row["source_locator"], row["value"]))
    assert wrong == []


def test_some_facts_come_from_restricted_documents_and_alone_name_certain_codes() -> None:
    by_code = {code: set() for code in RESTRICTED_ONLY_CODES}
    for row in facts():
        for code in {row["entity"], row["metric_code"]} & set(by_code):
            by_code[code].add(row["source_doc_id"])
    assert all(sources and sources <= set(RESTRICTED) for sources in by_code.values())
    assert not any(code in (DATA / "profile.toml").read_text(encoding="utf-8") for code in RESTRICTED_ONLY_CODES)


def test_questions_are_asked_in_all_languages_and_never_of_a_restricted_document() -> None:
    questions = rows(DATA / "questions.tsv", "\t")
    assert len(questions) >= 12
    assert {row["language"] for row in questions} == LANGUAGES
    assert not {row["doc_id"] for row in questions} & set(RESTRICTED)


@pytest.mark.parametrize("row", rows(DATA / "questions.tsv", "\t"), ids=lambda row: row["doc_id"])
def test_the_answer_to_a_question_stands_in_its_document_and_in_no_other(row: dict[str, str]) -> None:
    holders = [doc_id for doc_id in documents() if doc_id != ENCRYPTED and row["phrase"] in extracted(doc_id)]
    assert holders == [row["doc_id"]]


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_every_restricted_document_has_a_secret_to_look_for() -> None:
    assert {doc_id for doc_id, _ in SECRETS} == set(RESTRICTED)


@pytest.mark.parametrize(("doc_id", "phrase"), SECRETS)
def test_a_secret_stands_in_its_document_and_nowhere_else(doc_id: str, phrase: str) -> None:
    holders = [other for other in documents() if other != ENCRYPTED and phrase in extracted(other)]
    assert holders == [doc_id]
    allowed = {"ragspine_assets_tests/demo_secrets.py", f"scripts/demo_text/{Path(doc_id).stem}.md"}
    assert [path for path, text in project_texts().items() if phrase in text and path not in allowed] == []
