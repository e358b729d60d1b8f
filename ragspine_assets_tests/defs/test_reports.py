"""What CI gets from a job: exit code, JUnit XML and a Markdown summary (SPEC 6.4)."""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragspine_assets.config import environment_name
from ragspine_assets.defs.reports import Verdict, write_junit, write_summary
from ragspine_assets.store import ChunkStore

ROOT = Path(__file__).resolve().parents[2]


def launch(folder: Path, job: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the documented one-liner in a folder that holds nothing but a source."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_HOME"))}
    given = {"source": "source", "store": "state/s.duckdb", "workers": "1", "snapshots": "state/snapshots", **settings}
    return subprocess.run(
        [sys.executable, "-m", "ragspine_assets.defs.launch", job, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=180,
        env={**clean, "PYTHONPATH": str(ROOT), **{environment_name(name): value for name, value in given.items()}},
    )  # fmt: skip


def test_the_checks_job_writes_both_reports_and_exits_by_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("One document.\n")
    refreshed = launch(tmp_path, "refresh")
    assert refreshed.returncode == 0, refreshed.stdout + refreshed.stderr
    assert not (tmp_path / "build").exists()

    assert launch(tmp_path, "checks").returncode == 0
    suites = ET.parse(tmp_path / "build" / "checks.xml").getroot()
    cases = suites.findall(".//testcase")
    assert len(cases) > 10
    assert not suites.findall(".//failure")
    assert "promises hold" in (tmp_path / "build" / "checks.md").read_text()

    with ChunkStore(tmp_path / "state" / "s.duckdb").connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged'")
    broken = launch(tmp_path, "checks", "--junit", "out/j.xml", "--summary", "out/s.md")
    assert broken.returncode == 1
    assert "one_active_version_equal_to_staged" in broken.stdout
    suites = ET.parse(tmp_path / "out" / "j.xml").getroot()
    names = {case.get("name") for case in suites.findall(".//testcase") if case.find("failure") is not None}
    assert "one_active_version_equal_to_staged" in names
    (suite,) = [each for each in suites if each.get("name") == "chunk_store"]
    assert int(suite.get("failures", 0)) >= 1
    summary = (tmp_path / "out" / "s.md").read_text()
    assert "## checks: " in summary
    assert "❌ | chunk\\_store | one active version equal to staged" in summary
    assert "a.txt" in summary


def test_a_wrong_setting_exits_with_2_and_says_what_is_allowed(tmp_path: Path) -> None:
    ended = launch(tmp_path, "checks", chunker="no-such")
    assert ended.returncode == 2
    assert "parent_child" in ended.stderr


FOUND = [
    Verdict("chunks", "covers", "holds", "All 3."),
    Verdict("chunks", "quotes", "broken", "1 of 3: a|b*\x1b[31m\udce9</failure>\n# name & <tag>"),
    Verdict("steps", "chunk_store", "failed", "StoreBusyError"),
    Verdict("raw_documents", "accounted", "look", "2 things to look at."),
]


def test_names_of_files_cannot_break_the_xml(tmp_path: Path) -> None:
    write_junit(FOUND, tmp_path / "j.xml")
    root = ET.parse(tmp_path / "j.xml").getroot()
    (failure,) = root.findall(".//failure")
    assert "</failure>" in (failure.text or "")
    assert len(root.findall(".//error")) == 1
    assert len(root.findall(".//testcase")) == 4


def test_the_summary_puts_what_is_bad_first_and_names_of_files_cannot_break_its_table(tmp_path: Path) -> None:
    write_summary(FOUND, tmp_path / "s.md", job="checks")
    title, _, _, _, *rows = (tmp_path / "s.md").read_text().splitlines()
    assert title == "## checks: 2 broken or failed"
    assert [row[2] for row in rows] == ["❌", "💥", "✅", "👀"]
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


HOSTILE = [
    "[here](javascript:alert(1))", "![x](http://evil.example/p.png)", "<img src=x onerror=alert(1)>", "a|b\\|c", "`code`",
    "**bold** _it_ ~~no~~", "&lt;script&gt;", "https://evil.example", "www.evil.example", "# title\n- list\n| a | b |", "$x^2$",
    "@everybody", "\\", "\u202egnp.exe",
]  # fmt: skip


@given(st.one_of(st.sampled_from(HOSTILE), st.text(alphabet="\\|`*_[]()<>&#!~$@:/w. a\n\u202e", max_size=12)))
@example("".join(HOSTILE))
def test_a_name_is_shown_as_it_is_in_a_cell_of_the_summary(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_summary([Verdict("graph", "asserted", "broken", f"x{name}x")], Path(folder, "s.md"), job="checks")
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(Path(folder, "s.md").read_text())
    cells = [token for before, token in itertools.pairwise(tokens) if before.type == "td_open"]
    assert [token.type for token in tokens].count("td_open") == 4
    shown = cells[3].children or []
    assert {child.type for child in shown} <= {"text", "text_special"}
    assert "".join(child.content for child in shown) == " ".join(f"x{name}x".replace("\u202e", "\ufffd").split())
    assert not re.search(r"(?<!\\)://|www\.", cells[3].content)


def test_a_report_that_cannot_be_written_does_not_hide_the_outcome(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("One document.\n")
    (tmp_path / "file").write_text("")
    ended = launch(tmp_path, "refresh", "--junit", "file/j.xml")
    assert "A report cannot be written" in ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("name", ["j.xml", "s.md"])
def test_a_report_is_replaced_as_a_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x" * 100_000)
    if name.endswith("xml"):
        write_junit(FOUND[:1], path)
    else:
        write_summary(FOUND[:1], path, job="checks")
    assert path.stat().st_size < 2000
    assert [each.name for each in tmp_path.iterdir()] == [name]
