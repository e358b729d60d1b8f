"""Sources that nobody would make on purpose, through the whole job: a clear outcome, and nothing lost (SPEC 1.1, 1.6)."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.documents.source import SourceListing, scan_source
from ragspine_assets.pipeline import documents as intake
from ragspine_assets.store import ChunkStore

KEPT = {f"kept/{number}.txt": f"Kept document {number}.\n" for number in range(12)}


class Job:
    """The refresh of one source, run after run."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.root = folder / "source"
        self.config = ServiceConfig(
            source=str(self.root), store=str(folder / "state" / "s.duckdb"), profile="", facts="", workers=1,
            snapshots=str(folder / "snapshots"),
        )  # fmt: skip
        self.instance = instance

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self) -> dg.ExecuteInProcessResult:
        return (
            build_defs(self.config)
            .resolve_job_def("refresh")
            .execute_in_process(instance=self.instance, raise_on_error=False)
        )

    def succeed(self) -> None:
        result = self.run()
        broken = [
            each.check_name
            for each in result.get_asset_check_evaluations()
            if not each.passed and each.severity is dg.AssetCheckSeverity.ERROR
        ]
        assert (result.success, broken) == (True, [])

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with ChunkStore(self.config.store).connect() as connection:
            return connection.execute(query).fetchall()

    def states(self) -> dict[str, str]:
        return {str(doc_id): str(status) for doc_id, status in self.rows("SELECT doc_id, status FROM document")}

    def reason(self, doc_id: str) -> str:
        return next(str(why) for key, why in self.rows("SELECT doc_id, reason FROM document") if key == doc_id)

    def active(self) -> dict[str, str]:
        rows = self.rows(
            "SELECT doc_id, string_agg(text, '' ORDER BY seq) FROM narrative_chunk WHERE active GROUP BY 1"
        )
        return {str(doc_id): str(text) for doc_id, text in rows}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with dg.DagsterInstance.ephemeral() as instance:
        made = Job(tmp_path, instance)
        for path, text in KEPT.items():
            made.write(path, text)
        yield made


def after_listing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Have something happen to the source between its listing and the reading of its files, once."""

    def listed(root: Path) -> SourceListing:
        found = scan_source(root)
        monkeypatch.setattr(intake, "scan_source", scan_source)
        change()
        return found

    monkeypatch.setattr(intake, "scan_source", listed)


def _vanish(file: Path) -> None:
    file.unlink()


def _lose_its_folder(file: Path) -> None:
    shutil.rmtree(file.parent)


def _become_a_link(file: Path) -> None:
    outside = file.parents[2] / "outside.txt"
    outside.write_text("SECRET of another folder\n")
    file.unlink()
    file.symlink_to(outside)


def _become_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("change", [_vanish, _lose_its_folder, _become_a_link, _become_a_pipe, _become_a_folder])
def test_a_file_that_is_no_more_what_was_listed_fails_alone_and_keeps_what_it_had(
    job: Job, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], known: bool
) -> None:
    file = job.write("moving/a.txt", "As it was.\n")
    if known:
        job.succeed()
        file.write_text("As it was, and one word more.\n")
    after_listing(monkeypatch, lambda: change(file))
    job.succeed()
    assert job.states() == {**dict.fromkeys(KEPT, "ingested"), "moving/a.txt": "failed"}
    assert job.active().get("moving/a.txt") == ("As it was." if known else None)
    assert job.reason("moving/a.txt")
    assert not [
        path for path in job.root.parent.rglob("snapshots/**/*") if path.is_file() and b"SECRET" in path.read_bytes()
    ]
    # The next run sees what is there now.
    job.succeed()
    assert job.states()["moving/a.txt"] in {"removed", "failed"}
    if job.states()["moving/a.txt"] == "removed":
        assert "moving/a.txt" not in job.active()


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_file_that_grows_after_it_was_listed_is_read_as_it_is(
    job: Job, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    file = job.write("growing.txt", "First line.\n")
    if known:
        job.succeed()
    after_listing(monkeypatch, lambda: file.write_text("First line.\nSecond line.\n"))
    job.succeed()
    assert job.active()["growing.txt"] == "First line.\nSecond line."
    versions = job.rows("SELECT DISTINCT version FROM narrative_chunk WHERE doc_id = 'growing.txt' ORDER BY version")
    job.succeed()
    assert job.rows("SELECT DISTINCT version FROM narrative_chunk WHERE doc_id = 'growing.txt' ORDER BY 1") == versions


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_found_out(job: Job) -> None:
    file = job.write("twin.txt", "Version A.\n")
    job.succeed()
    times = file.stat()
    file.write_text("Version B.\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    job.succeed()
    assert job.active()["twin.txt"] == "Version B."


ODD_NAMES = [
    "n" * 251 + ".txt",
    "漢" * 83 + ".txt",
    "new\nline.txt",
    "comma, quote\" and 'apostrophe.txt",
    "hash#para3.txt",
    "at@v1#c0.txt",
    "semi;colon -- DROP TABLE.txt",
    "per%cent%41 {brace} [x]*?.txt",
    "back\\slash.txt",
    "tab\tand\x1b[31mcolour.txt",
    " leading and trailing .txt",
    "bidi\u202etxt.exe.txt",
]


def test_odd_names_are_documents_like_others(job: Job) -> None:
    for number, name in enumerate(ODD_NAMES):
        job.write(name, f"Odd document {number}.\n")
    for _ in range(2):
        job.succeed()
        active = job.active()
        assert {name: active[name] for name in ODD_NAMES} == {
            name: f"Odd document {number}." for number, name in enumerate(ODD_NAMES)
        }
    for name in ODD_NAMES:
        (job.root / name).unlink()
    job.succeed()
    assert job.active().keys() == KEPT.keys()


def test_names_that_are_not_utf8_and_two_spellings_fail_with_a_reason_and_hurt_nobody(job: Job) -> None:
    job.root.mkdir(exist_ok=True)
    job.write("caff\u00e8.txt", "Composed.\n")
    job.write("caffe\u0300.txt", "Decomposed.\n")
    Path(os.fsdecode(os.fsencode(job.root) + b"/caf\xe9.txt")).write_text("Not UTF-8.\n")
    folder = Path(os.fsdecode(os.fsencode(job.root) + b"/d\xff"))
    folder.mkdir()
    (folder / "x.txt").write_text("Below such a folder.\n")
    for _ in range(2):
        job.succeed()
        states = job.states()
        assert states == {
            **dict.fromkeys(KEPT, "ingested"), "caff\u00e8.txt": "ingested", "caf%E9.txt": "failed", "d%FF/x.txt": "failed"
        }  # fmt: skip


def test_a_folder_that_disappears_withdraws_its_documents_and_one_that_cannot_be_read_does_not(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write("shut/a.txt", "Behind the door.\n")
    job.write("gone/b.txt", "Soon gone.\n")
    job.succeed()
    shutil.rmtree(job.root / "gone")
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).rstrip("/").endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    with monkeypatch.context() as shut:
        shut.setattr("ragspine_assets.documents.source.os.scandir", scandir)
        job.succeed()
    assert job.states()["gone/b.txt"] == "removed"
    assert job.states()["shut/a.txt"] == "failed"
    assert job.active() == {**{path: text.strip() for path, text in KEPT.items()}, "shut/a.txt": "Behind the door."}
    job.succeed()
    assert job.states()["shut/a.txt"] == "ingested"


def test_a_source_that_disappears_fails_the_run_says_what_to_do_and_loses_nothing(job: Job) -> None:
    job.succeed()
    before = job.active()
    os.rename(job.root, f"{job.root}.away")
    result = job.run()
    assert not result.success
    said = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert any("SOURCE=" in str(failure.user_failure_data) for failure in said)
    job.root.mkdir()
    result = job.run()
    assert not result.success
    assert any(
        "allow_mass_removal" in str(e.step_failure_data.user_failure_data)
        for e in result.all_events
        if e.is_step_failure
    )
    assert job.active() == before
    job.root.rmdir()
    os.rename(f"{job.root}.away", job.root)
    job.succeed()
    assert job.active() == before


def test_a_content_that_comes_back_is_a_further_version(job: Job) -> None:
    for text in ("Version A.\n", "Version B.\n", "Version A.\n"):
        job.write("aba.txt", text)
        job.succeed()
        assert job.active()["aba.txt"] == text.strip()
    assert job.rows("SELECT version, text FROM narrative_chunk WHERE doc_id = 'aba.txt' ORDER BY version") == [
        (1, "Version A."), (2, "Version B."), (3, "Version A.")
    ]  # fmt: skip
