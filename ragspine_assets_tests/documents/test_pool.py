"""A bad file costs its limit and nothing else; workers never outlive their pool (SPEC 6.5)."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.pool import ExtractionPool, WorkerStartError, batch_files, gather_rows
from ragspine_assets.documents.source import SourceFile, scan_source
from ragspine_assets.documents.worker import EXTRACTED_SCHEMA, extract_batch

DOUBLE = "ragspine_assets_tests.documents.parser_doubles:obedient"
QUICK = ExtractionLimits(time_limit_s=1.2)
PATIENT = ExtractionLimits(time_limit_s=60)
MEAGRE = ExtractionLimits(time_limit_s=60, memory_bytes=400 * 2**20)
Row = dict[str, object]


def write(root: Path, contents: Mapping[str, str | bytes]) -> list[SourceFile]:
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(scan_source(root).files)


def extract(
    root: Path,
    contents: Mapping[str, str | bytes],
    *,
    limits: ExtractionLimits = PATIENT,
    parser: str = DOUBLE,
    workers: int = 1,
    max_files: int = 64,
) -> dict[str, Row]:
    files = write(root, contents)
    with ExtractionPool(root, limits, workers=workers, parser=parser, grace_s=0.3) as pool:
        rows = [row for batch in pool.run(batch_files(files, max_files=max_files)) for row in batch.to_pylist()]
    assert sorted(row["doc_id"] for row in rows) == [file.doc_id for file in files]
    return {row["doc_id"]: row for row in rows}


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("word", ["HOLD", "SLEEP"])
def test_a_file_whose_parser_hangs_costs_its_time_limit_and_nothing_else(tmp_path: Path, word: str) -> None:
    started = time.monotonic()
    rows = extract(tmp_path, {"a.txt": "before", "b.txt": word, "c.txt": "after"}, limits=QUICK)
    assert time.monotonic() - started < 45
    assert rows["b.txt"]["status"] == "failed"
    assert rows["b.txt"]["retry"] is True
    assert "time limit of 1.2 s" in str(rows["b.txt"]["reason"])
    assert [rows[name]["text"] for name in ("a.txt", "c.txt")] == ["before", "after"]


@pytest.mark.parametrize(("word", "how"), [("CRASH", "SIGSEGV"), ("ABORT", "SIGABRT"), ("QUIT", "exit code 3")])
def test_a_file_whose_parser_crashes_fails_alone(tmp_path: Path, word: str, how: str) -> None:
    rows = extract(tmp_path, {"a.txt": "before", "b.txt": word, "c.txt": "after"})
    assert rows["b.txt"]["status"] == "failed"
    assert rows["b.txt"]["retry"] is True
    assert how in str(rows["b.txt"]["reason"])
    assert [rows[name]["status"] for name in ("a.txt", "c.txt")] == ["ingested", "ingested"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep a limit on memory")
@pytest.mark.parametrize("word", ["EAT", "EAT_NATIVE"])
def test_a_file_that_eats_memory_meets_its_limit(tmp_path: Path, word: str) -> None:
    rows = extract(tmp_path, {"a.txt": "before", "b.txt": word, "c.txt": "after"}, limits=MEAGRE)
    assert rows["b.txt"]["status"] == "failed"
    assert "400 MiB" in str(rows["b.txt"]["reason"])
    assert [rows[name]["status"] for name in ("a.txt", "c.txt")] == ["ingested", "ingested"]


@pytest.mark.parametrize("word", ["RAISE", "PANIC", "LEAVE"])
def test_what_a_parser_raises_is_told_by_its_type_alone(tmp_path: Path, word: str) -> None:
    row = extract(tmp_path, {"a.txt": word})["a.txt"]
    assert row["status"] == "failed"
    assert row["retry"] is False
    assert "SECRET" not in str(row)


def test_a_refusal_keeps_its_reason_and_the_hash_of_what_was_refused(tmp_path: Path) -> None:
    row = extract(tmp_path, {"a.txt": "REFUSE"})["a.txt"]
    assert (row["status"], row["reason"], row["retry"]) == ("failed", "it is refused", False)
    assert len(str(row["content_hash"])) == 64


def test_a_process_whose_parser_gave_up_reads_no_other_file(tmp_path: Path) -> None:
    rows = extract(tmp_path, {"a.txt": "one", "b.txt": "GIVE_UP", "c.txt": "three"})
    assert [row["status"] for _, row in sorted(rows.items())] == ["ingested", "failed", "ingested"]
    assert rows["b.txt"]["reason"] == "its parser gave up"
    assert rows["a.txt"]["title"] != rows["c.txt"]["title"]


def test_a_process_reads_many_files(tmp_path: Path) -> None:
    rows = extract(tmp_path, {"a.txt": "one", "b.txt": "RAISE", "c.txt": "three"}, max_files=1)
    assert rows["a.txt"]["title"] == rows["c.txt"]["title"] != str(os.getpid())


def test_a_whole_batch_of_bad_files_gives_a_row_for_each(tmp_path: Path) -> None:
    words = ["CRASH", "HOLD", "ABORT", "RAISE", "GIVE_UP", "SLEEP", "QUIT"]
    rows = extract(tmp_path, {f"{number}.txt": word for number, word in enumerate(words)}, workers=2, limits=QUICK)
    assert {row["status"] for row in rows.values()} == {"failed"}


def test_what_was_read_before_a_kill_is_not_read_again(tmp_path: Path) -> None:
    # The first file takes longer than a worker keeps its rows, so they are out before the crash.
    files = write(tmp_path, {"a.txt": "LINGER", "b.txt": "CRASH", "c.txt": "after"})
    with ExtractionPool(tmp_path, PATIENT, workers=1, parser=DOUBLE) as pool:
        started = time.monotonic()
        batches = list(pool.run([files]))
    assert [batch.column("doc_id").to_pylist() for batch in batches] == [["a.txt"], ["b.txt"], ["c.txt"]]
    assert time.monotonic() - started < 45


def test_what_parsers_print_reaches_neither_the_output_of_the_parent_nor_the_answers(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("CHATTER")
    script = textwrap.dedent(f"""
        from ragspine_assets.documents.pool import ExtractionPool
        from ragspine_assets.documents.source import scan_source
        listing = scan_source({str(tmp_path / "source")!r})
        with ExtractionPool(listing.root, workers=1, parser={DOUBLE!r}) as pool:
            for batch in pool.run([listing.files]):
                print(batch.column("status").to_pylist())
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=_project())
    assert done.stdout == "['ingested']\n"
    assert done.stderr == ""


def _project() -> Path:
    return Path(__file__).resolve().parents[2]


def test_one_and_two_workers_and_no_process_at_all_give_the_same_rows(tmp_path: Path) -> None:
    contents: dict[str, str | bytes] = {
        f"{number:02}.md": f"# Head {number}\n\nText {number}.\n" for number in range(20)
    }
    contents["x.html"] = "<title>T</title><p>Hello</p>"
    contents["y.txt"] = "caffè, però".encode("cp1252")
    default = "ragspine_assets.documents.extraction:extract_bytes"
    one = extract(tmp_path, contents, parser=default, workers=1)
    two = extract(tmp_path, contents, parser=default, workers=2, max_files=3)
    here = {row["doc_id"]: row for row in extract_batch(tmp_path, list(scan_source(tmp_path).files)).to_pylist()}
    assert one == two == here == extract(tmp_path, contents, parser=default, workers=0, max_files=3)


def test_rows_have_the_schema_and_no_nulls(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text", "b.txt": "", "c.txt": "RAISE", "d.md": "---\ntitle: T\n---\nbody"})
    batch = extract_batch(tmp_path, files, parser=DOUBLE)
    assert batch.schema == EXTRACTED_SCHEMA
    assert not any(column.null_count for column in batch.columns)


def test_an_empty_or_blank_file_has_no_text(tmp_path: Path) -> None:
    rows = extract(tmp_path, {"a.txt": "", "b.txt": " \n\u200b\n"})
    assert {(row["status"], row["reason"], row["text"]) for row in rows.values()} == {("no_text", "", "")}


def test_front_matter_is_taken_off_markdown_and_off_nothing_else(tmp_path: Path) -> None:
    text = "---\ntitle: Plan\n---\n# Real\n"
    rows = extract(tmp_path, {"a.md": text, "b.txt": text})
    assert (rows["a.md"]["text"], rows["a.md"]["front_matter"]) == ("# Real\n", "title: Plan\n")
    assert (rows["b.txt"]["text"], rows["b.txt"]["front_matter"]) == (text, "")


def test_a_front_matter_that_cannot_be_parsed_is_reported(tmp_path: Path) -> None:
    row = extract(tmp_path, {"a.md": "---\nsensitivity: [x\n---\nbody\n"})["a.md"]
    assert row["front_matter_problem"]


def test_hash_and_text_come_from_the_same_bytes(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "old"})
    (tmp_path / "a.txt").write_text("new and longer")
    row = extract_batch(tmp_path, files).to_pylist()[0]
    import hashlib

    assert row["text"] == "new and longer"
    assert row["content_hash"] == hashlib.sha256(b"new and longer").hexdigest()
    assert row["bytes"] == len("new and longer")


def test_a_file_that_vanished_or_became_a_link_fails_and_may_be_tried_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    files = write(root, {"a.txt": "a", "b.txt": "b", "c.txt": "c"})
    (root / "a.txt").unlink()
    (root / "b.txt").unlink()
    (tmp_path / "outside.txt").write_text("SECRET")
    (root / "b.txt").symlink_to(tmp_path / "outside.txt")
    rows = extract_batch(root, files).to_pylist()
    assert [(row["status"], row["retry"]) for row in rows[:2]] == [("failed", True), ("failed", True)]
    assert rows[2]["status"] == "ingested"
    assert "SECRET" not in str(rows)


def test_a_file_larger_than_the_limit_fails(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "x" * 1001, "b.txt": "x" * 1000})
    rows = extract_batch(tmp_path, files, ExtractionLimits(max_bytes=1000)).to_pylist()
    assert [row["status"] for row in rows] == ["failed", "ingested"]


def test_batches_are_pulled_no_faster_than_workers_take_them(tmp_path: Path) -> None:
    files = write(tmp_path, {f"{number}.txt": "text" for number in range(40)})
    pulled: list[int] = []

    def batches() -> Iterator[Sequence[SourceFile]]:
        for number, file in enumerate(files):
            pulled.append(number)
            yield [file]

    with ExtractionPool(tmp_path, PATIENT, workers=2, parser=DOUBLE) as pool:
        for done, _ in enumerate(pool.run(batches())):
            assert len(pulled) <= done + 4


def test_progress_counts_files_and_failures(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text", "b.txt": "RAISE", "c.txt": "text"})
    seen: list[tuple[int, int]] = []
    with ExtractionPool(
        tmp_path, QUICK, workers=1, parser=DOUBLE, progress=lambda done, failed: seen.append((done, failed))
    ) as pool:
        list(pool.run([[file] for file in files]))
    assert seen == [(1, 0), (2, 1), (3, 1)]


def test_a_pool_can_run_again(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    with ExtractionPool(tmp_path, PATIENT, workers=2, parser=DOUBLE) as pool:
        assert sum(batch.num_rows for batch in pool.run([files])) == 1
        assert sum(batch.num_rows for batch in pool.run([files, [], files])) == 2


def test_nothing_to_do_starts_no_process(tmp_path: Path) -> None:
    with ExtractionPool(tmp_path, PATIENT, parser="no.such.module:function") as pool:
        assert list(pool.run([])) == []


@pytest.mark.parametrize("parser", ["no.such.module:function", "ragspine_assets_tests.documents.parser_doubles:absent"])
def test_a_parser_that_cannot_be_loaded_is_an_error_and_no_endless_loop(tmp_path: Path, parser: str) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    with ExtractionPool(tmp_path, PATIENT, parser=parser) as pool, pytest.raises(WorkerStartError, match=parser):
        list(pool.run([files]))


def test_an_interpreter_that_dies_at_its_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with ExtractionPool(tmp_path, PATIENT, parser=DOUBLE) as pool, pytest.raises(WorkerStartError, match="exit code 1"):
        list(pool.run([files]))


def test_a_missing_interpreter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with ExtractionPool(tmp_path, PATIENT, parser=DOUBLE) as pool, pytest.raises(WorkerStartError):
        list(pool.run([files]))


BROKEN = "ragspine_assets_tests.documents.parser_doubles:broken"
NO_LIBRARY = "ragspine_assets_tests.documents.parser_doubles:without_its_library"


@pytest.mark.parametrize(("parser", "workers"), [(BROKEN, 2), (NO_LIBRARY, 1), (NO_LIBRARY, 2)])
def test_a_machine_on_which_no_file_can_be_read_fails_the_run_and_not_every_file(
    tmp_path: Path, parser: str, workers: int
) -> None:
    files = write(tmp_path, {f"{number:02}.txt": "text" for number in range(60)})
    rows: list[Row] = []
    pool = ExtractionPool(tmp_path, PATIENT, workers=workers, parser=parser, grace_s=0.3)
    with pool, pytest.raises(WorkerStartError, match=r"first \d+ files all failed.*run again") as caught:
        for batch in pool.run(batch_files(files, max_files=5)):
            rows += batch.to_pylist()
    assert len(rows) < 30
    assert {(row["status"], row["retry"]) for row in rows} == {("failed", True)}
    assert "SECRET" not in str(caught.value)
    assert pool.worker_process_ids() == []


@pytest.mark.parametrize("word", ["CRASH", "RAISE", "REFUSE", "LEAVE"])
def test_files_that_all_fail_on_a_sound_machine_fail_alone(tmp_path: Path, word: str) -> None:
    rows = extract(tmp_path, {f"{number:02}.txt": word for number in range(12)}, workers=2, max_files=4)
    assert {row["status"] for row in rows.values()} == {"failed"}


def test_fewer_bad_files_than_ten_are_no_reason_to_doubt_the_machine(tmp_path: Path) -> None:
    rows = extract(tmp_path, {f"{number}.txt": "text" for number in range(9)}, parser=BROKEN)
    assert {row["status"] for row in rows.values()} == {"failed"}


def test_a_machine_that_has_read_a_file_is_doubted_no_more(tmp_path: Path) -> None:
    contents = {"00.txt": "LINGER", **{f"{number:02}.txt": "text" for number in range(1, 12)}}
    rows = extract(tmp_path, contents, parser=BROKEN)
    assert [row["status"] for _, row in sorted(rows.items())] == ["ingested"] + ["failed"] * 11


def test_a_missing_library_is_no_fault_of_the_bytes(tmp_path: Path) -> None:
    row = extract(tmp_path, {"a.txt": "text"}, parser=NO_LIBRARY)["a.txt"]
    assert (row["retry"], row["reason"]) == (True, "its parser failed (ImportError)")


def test_closing_ends_workers_in_the_middle_of_a_file(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text", "b.txt": "HOLD", "c.txt": "HOLD"})
    pool = ExtractionPool(tmp_path, ExtractionLimits(time_limit_s=300), workers=2, parser=DOUBLE)
    results = pool.run([[file] for file in files])
    next(results)
    assert wait_until(lambda: len(pool.worker_process_ids()) == 2)
    processes = pool.worker_process_ids()
    started = time.monotonic()
    results.close()
    assert time.monotonic() - started < 60
    assert not any(map(is_alive, processes))
    with pytest.raises(RuntimeError, match="closed"):
        list(pool.run([files]))


def test_an_error_of_the_consumer_ends_the_workers(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    processes: list[int] = []
    with (
        pytest.raises(KeyboardInterrupt),
        ExtractionPool(tmp_path, PATIENT, workers=1, parser=DOUBLE) as pool,
    ):
        for _ in pool.run([files]):
            processes += pool.worker_process_ids()
            raise KeyboardInterrupt
    assert processes
    assert not any(map(is_alive, processes))


def test_an_error_of_the_batches_ends_the_workers(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "SLEEP"})

    def batches() -> Iterator[Sequence[SourceFile]]:
        yield files
        raise OSError("the listing broke off")

    pool = ExtractionPool(tmp_path, ExtractionLimits(time_limit_s=300), workers=1, parser=DOUBLE)
    with pytest.raises(OSError, match="broke off"):
        list(pool.run(batches()))
    assert pool.worker_process_ids() == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("word", ["HOLD", "SLEEP", "text"])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, word: str) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text(word)
    script = textwrap.dedent(f"""
        import threading, time
        from ragspine_assets.documents.extraction import ExtractionLimits
        from ragspine_assets.documents.pool import ExtractionPool
        from ragspine_assets.documents.source import scan_source
        listing = scan_source({str(tmp_path / "source")!r})
        pool = ExtractionPool(listing.root, ExtractionLimits(time_limit_s=300), workers=1, parser={DOUBLE!r})
        threading.Thread(target=lambda: list(pool.run([listing.files])), daemon=True).start()
        while not pool.worker_process_ids():
            time.sleep(0.01)
        print(*pool.worker_process_ids(), flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=_project())
    assert parent.stdout is not None
    try:
        worker = int(parent.stdout.readline())
        time.sleep(0.7)
        assert is_alive(worker)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    assert wait_until(lambda: not is_alive(worker))


def test_a_worker_imports_neither_dagster_nor_duckdb_nor_pandas(tmp_path: Path) -> None:
    # The second file is read after the row of the first has been packed.
    double = "ragspine_assets_tests.documents.parser_doubles:modules"
    rows = extract(tmp_path, {"a.txt": "x", "b.txt": "x"}, parser=double, max_files=1)
    assert rows["b.txt"]["text"] == "none"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 1, 1], [[1, 1], [1]]),
        ([90, 20], [[90], [20]]),
        ([500, 1], [[500], [1]]),
        ([], []),
    ],
)
def test_files_are_batched_by_number_and_size(sizes: list[int], expected: list[list[int]]) -> None:
    files = [SourceFile(str(number), str(number), size, ".txt") for number, size in enumerate(sizes)]
    batches = batch_files(files, max_files=2, max_bytes=100)
    assert [[file.size for file in batch] for batch in batches] == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_rows": 5}, [6, 6, 2]),
        ({"max_rows": 99, "max_bytes": 1}, [2] * 7),
        ({"max_rows": 99, "max_seconds": 0.0}, [2] * 7),
        ({"max_rows": 99, "max_seconds": 60.0}, [14]),
    ],
)
def test_rows_are_gathered_by_number_size_and_age_and_none_is_lost(limits: dict[str, int], expected: list[int]) -> None:
    batches = [pa.RecordBatch.from_pydict({"number": [2 * k, 2 * k + 1]}) for k in range(7)]
    gathered = list(gather_rows(batches, **limits))
    assert [batch.num_rows for batch in gathered] == expected
    assert [number for batch in gathered for number in batch.column("number").to_pylist()] == list(range(14))


def test_nothing_gathered_is_nothing(tmp_path: Path) -> None:
    assert list(gather_rows([])) == []


def test_a_large_text_comes_through_whole(tmp_path: Path) -> None:
    text = "parola è\n" * 1_500_000
    rows = extract(tmp_path, {"a.txt": text}, parser=_default())
    assert rows["a.txt"]["text"] == text


def _default() -> str:
    return "ragspine_assets.documents.extraction:extract_bytes"


def test_batches_are_record_batches(tmp_path: Path) -> None:
    files = write(tmp_path, {"a.txt": "text"})
    with ExtractionPool(tmp_path, PATIENT, workers=1, parser=DOUBLE) as pool:
        batches = list(pool.run([files]))
    assert pa.Table.from_batches(batches).schema == EXTRACTED_SCHEMA
