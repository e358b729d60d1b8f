"""Treat the pipeline badly for a while and see that nothing is lost: `make soak` (SPEC 3.6, 6.5).

Every trial ends in the same question: is the store, after one undisturbed run, equal to one that nobody disturbed? Times
and version numbers may differ, nothing else. Prints one line per trial and exits 1 if any of them broke something.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import duckdb

from ragspine_assets_tests.e2e.server import ENDED, Server, running

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["valve", "river", "ledger", "turbine", "archive", "signal", "harbour", "copper", "season", "motion", "cargo"]
NOT_COMPARED = {"ingested_at", "changed_at", "run_id", "version", "purged_at"}
COMPARED = (
    "document", "document_text", "staged_chunk", "narrative_chunk", "graph_node", "graph_edge", "graph_evidence", "fact",
)  # fmt: skip
SECRET = "Zanzibarquux"
LIMIT_S = 240.0
# Beside the source, so that folder and store may be copied together.
STORE = "s.duckdb"


def write_source(folder: Path, documents: int, seed: int) -> None:
    """Write documents, some of them RESTRICTED, and a profile and facts beside them."""
    rng = random.Random(seed)
    for number in range(documents):
        path = folder / "source" / f"part{number % 7}" / f"d{number}.{'md' if number % 3 else 'txt'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        secret = SECRET if number % 10 == 0 else ""
        lines = [" ".join(rng.choices(WORDS, k=12)) + f" number {number} {secret}." for _ in range(rng.randint(3, 60))]
        path.write_text("\n".join(lines))
    (folder / "source" / "metadata.csv").write_text(
        "doc_id,sensitivity,entity\n"
        + "".join(f"part{n % 7}/d{n}.{'md' if n % 3 else 'txt'},RESTRICTED,\n" for n in range(0, documents, 10))
    )
    (folder / "profile.toml").write_text(
        '[home]\ncompany_name = "Home"\nentity_code = "HOM"\n[home.synonyms]\nturbine = "TUR"\ncopper = "COP"\n'
    )
    (folder / "facts.csv").write_text(
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        "REV,HOM,FY,2024,1.5,EUR,part1/d1.md,part1/d1.md#para1\nREV,HOM,FY,2025,2,EUR,part0/d0.txt,part0/d0.txt#para1\n"
    )


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a run in a folder."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSPINE_", "DAGSTER_"))}
    return {
        **clean, "PYTHONPATH": str(ROOT), "RAGSPINE_SOURCE": "source", "RAGSPINE_STORE": STORE,
        "RAGSPINE_PROFILE": "profile.toml", "RAGSPINE_FACTS": "facts.csv", "RAGSPINE_SNAPSHOTS": "snapshots",
        "RAGSPINE_WORKERS": "2", "RAGSPINE_WAIT_S": "60", **more,
    }  # fmt: skip


def start(folder: Path, job: str = "refresh", **more: str) -> subprocess.Popen[str]:
    """Start a job as the command line does, in a process group of its own."""
    if not (folder / "dagster.yaml").exists():
        shutil.copy(ROOT / "dagster.yaml", folder)
    (folder / ".dagster").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "ragspine_assets.defs.launch", job], cwd=folder, env=environment(**more),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a job; one that does not end in time is a fault."""
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        kill(process)
        raise Broken(f"a run did not end within {LIMIT_S:.0f} s") from None
    return process.returncode, output


def run(folder: Path, job: str = "refresh", **more: str) -> tuple[int, str]:
    """Run a job to its end."""
    return finish(start(folder, job, **more))


def kill(process: subprocess.Popen[str]) -> None:
    """End a run at once, and see that the workers it had started do not outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    no_workers_of(process.pid)


def no_workers_of(pid: int) -> None:
    """See that a dead run's workers end by themselves: they hold text of documents in memory."""
    until = time.monotonic() + 5
    while left := list(workers_of(pid)):
        if time.monotonic() > until:
            raise Broken(f"workers {left} outlive their run")
        time.sleep(0.05)


def workers_of(pid: int) -> Iterator[int]:
    """Find the worker processes that a run started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if len(words) > 3 and b"ragspine_assets.documents.worker" in words[2] and words[3] == str(pid).encode():
                yield int(path.parent.name)


def leave_spill(folder: Path) -> None:
    """Leave what a run leaves that is killed while DuckDB spills, which a small source never makes it do."""
    spill = folder / f"{STORE}.tmp"
    spill.mkdir(exist_ok=True)
    (spill / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(SECRET.encode() * 100)


def stage_of(folder: Path) -> str:
    """Say how far a killed run had come, from a copy: looking must not do the next run's work."""
    if not (folder / STORE).exists():
        return "no store"
    with tempfile.TemporaryDirectory() as copies:
        for name in (STORE, f"{STORE}.wal"):
            if (folder / name).exists():
                shutil.copy(folder / name, copies)
        with duckdb.connect(str(Path(copies) / STORE)) as connection:
            there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            filled = [
                table
                for table in ("document", "staged_chunk", "narrative_chunk", "graph_edge")
                if table in there and connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall()
            ]
    if (folder / "snapshots" / "CURRENT").exists():
        filled.append("published")
    return filled[-1] if filled else "an empty store"


class Broken(AssertionError):
    """A promise did not hold."""


def state(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return what is stored, without times and version numbers, and only what is active."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    with duckdb.connect(str(folder / STORE), config={"threads": "1"}) as connection:
        for table in COMPARED:
            columns = [
                name
                for (name,) in connection.execute(
                    "SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
                ).fetchall()
                if name not in NOT_COMPARED
            ]
            active = " WHERE active" if table == "narrative_chunk" else ""
            query = f"SELECT {', '.join(columns)} FROM {table}{active} ORDER BY ALL"
            rows[table] = [tuple(map(str, row)) for row in connection.execute(query).fetchall()]
    return rows


def published(folder: Path) -> bytes:
    """Return the published chunks as bytes without version numbers; nothing where nothing is published."""
    import pyarrow as pa

    current = folder / "snapshots" / "CURRENT"
    if not current.exists():
        return b""
    with pa.memory_map(str(folder / "snapshots" / current.read_text().strip() / "chunks.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    kept = [name for name in table.column_names if name not in NOT_COMPARED]
    return repr(table.select(kept).to_pydict()).encode()


def prove(folder: Path, expected: dict[str, list[tuple[object, ...]]], snapshot: bytes, what: str) -> None:
    """Compare a store and a snapshot with the undisturbed ones, and look for what a dead process left behind."""
    for table, rows in state(folder).items():
        if rows != expected[table]:
            wrong = set(rows) ^ set(expected[table])
            raise Broken(f"{what}: {table} differs in {len(wrong)} rows")
    if published(folder) != snapshot:
        raise Broken(f"{what}: the published chunks differ")
    spill = folder / f"{STORE}.tmp"
    if spill.exists() and any(path.is_file() for path in spill.rglob("*")):
        raise Broken(f"{what}: spill files are left")
    for path in (folder / "snapshots").rglob("*"):
        if path.is_file() and SECRET.encode() in path.read_bytes():
            raise Broken(f"{what}: {path.name} holds RESTRICTED text")
        if path.name.startswith((".building-", ".removed-")):
            raise Broken(f"{what}: {path.name} is left")


class Soak:
    """The trials over one generated source."""

    def __init__(self, folder: Path, documents: int, seed: int) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.site.mkdir()
        self.serving = ExitStack()
        self.server: Server | None = None
        self.rng = random.Random(seed)
        # kB: from too small for the first table to enough for everything but the last stage.
        self.sizes = itertools.cycle((1500, 3000, 4500, 6000, 400, 2200, 7500, 5200))
        self.pattern = folder / "pattern"
        write_source(self.pattern, documents, seed)
        started = time.monotonic()
        code, output = run(self.pattern)
        if code != 0:
            raise Broken(f"the undisturbed run failed:\n{output}")
        self.lasts = time.monotonic() - started
        self.healed = 0
        self.stretch_s = 60.0
        self.expected, self.snapshot = state(self.pattern), published(self.pattern)

    @contextmanager
    def trial(self, *, filled: bool = False) -> Iterator[Path]:
        """Give a copy of the source, with the finished store or with none."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(
            self.pattern, folder, dirs_exist_ok=True, symlinks=True,
            ignore=None if filled else shutil.ignore_patterns("s.duckdb*", "snapshots", ".dagster", "build"),
        )  # fmt: skip
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def heal(self, folder: Path, what: str, **more: str) -> None:
        """One normal run, and then everything must be as if nothing had happened."""
        code, output = run(folder, **more)
        if code != 0:
            raise Broken(f"{what}: the next run failed:\n{output[-2000:]}")
        prove(folder, self.expected, self.snapshot, what)
        self.healed += 1
        # The run has proved the same already; the other job needs to be tried now and then only.
        if self.healed % 5 == 0:
            code, output = run(folder, "checks", **more)
            if code != 0:
                raise Broken(f"{what}: the checks are red:\n{output[-2000:]}")

    @contextmanager
    def trial_of_the_site(self, *, filled: bool = False) -> Iterator[Path]:
        """Give the folder that the server serves, as `trial` gives another."""
        for left in (*self.site.glob("s.duckdb*"), *self.site.glob("s.replaced*"), *self.site.glob("snapshots")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.rmtree(self.site / "source", ignore_errors=True)
        shutil.copytree(
            self.pattern, self.site, dirs_exist_ok=True, symlinks=True,
            ignore=shutil.ignore_patterns(".dagster", "build", *([] if filled else ["s.duckdb*", "snapshots"])),
        )  # fmt: skip
        yield self.site

    def a_busy_stretch(self) -> str:
        """Runs from a terminal, the UI and the sensor, kills, cancels, edits, an unmounted source, on a busy machine.

        No run but a killed one is closed as dead, and what is published is never withdrawn, since no label is raised.
        """
        self.end_server()
        more = {name: value for name, value in environment().items() if name.startswith("RAGSPINE_")}
        burning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        processes: list[subprocess.Popen[str]] = []
        launched: list[str] = []
        victims: set[int] = set()
        done = dict.fromkeys(("run", "launch", "kill", "cancel", "edit", "unmount"), 0)
        with (
            self.trial_of_the_site(filled=True) as folder,
            running(folder, RAGSPINE_AUTOMATION="1", RAGSPINE_WATCH_INTERVAL_S="5", **more) as server,
        ):
            before = {run.run_id for run in server.runs()}
            try:
                until = time.monotonic() + self.stretch_s
                while time.monotonic() < until:
                    action = self.rng.choice(list(done))
                    if action == "run" and len([p for p in processes if p.poll() is None]) < 2:
                        processes.append(start(folder))
                    elif action == "launch" and len([r for r in server.runs() if r.status not in ENDED]) < 3:
                        launched.append(server.launch("refresh"))
                    elif action == "kill" and (alive := [p for p in processes if p.poll() is None]):
                        victims.add(alive[0].pid)
                        kill(alive[0])
                    elif action == "cancel" and launched:
                        server.cancel(self.rng.choice(launched))
                    elif action == "edit":
                        (folder / "source" / "part2" / "d2.md").write_text(f"Edited {self.rng.random()}.\n")
                    elif action == "unmount":
                        self.unmounted(folder, processes)
                    else:
                        continue
                    done[action] += 1
                    if not (folder / "snapshots" / "CURRENT").exists():
                        raise Broken(f"what is published was withdrawn after {action}")
                    time.sleep(self.rng.uniform(0.2, 3))
                for process in processes:
                    if process.poll() is None:
                        finish(process)
                until = time.monotonic() + LIMIT_S
                while left := [run for run in server.runs() if run.status not in ENDED]:
                    # A killed run stays open until somebody starts the next one.
                    run(folder, "checks")
                    if time.monotonic() > until:
                        raise Broken(f"runs are left open: {left}")
                    time.sleep(1)
                self.no_live_run_was_closed(server, before, victims)
            finally:
                burning.kill()
                burning.wait()
                for process in processes:
                    if process.poll() is None:
                        kill(process)
            doors = {"sensor": 0, "terminal": len(processes), "UI": len(launched)}
            doors["sensor"] = sum(
                "dagster/sensor_name" in each.tags for each in server.runs() if each.run_id not in before
            )
        # The server is gone, and with it the sensor: what is compared is one quiet run after all of it.
        shutil.copytree(self.pattern / "source", self.site / "source", dirs_exist_ok=True)
        self.heal(self.site, "a busy stretch")
        return f"a busy stretch: {doors}, {done}"

    def unmounted(self, folder: Path, processes: list[subprocess.Popen[str]]) -> None:
        """Take all documents and metadata.csv away for a moment, as a share that is not mounted, with a run in it."""
        aside = folder / "aside"
        (folder / "source").rename(aside)
        (folder / "source").mkdir()
        try:
            process = start(folder)
            processes.append(process)
            time.sleep(self.rng.uniform(1, min(self.lasts * 2, 30)))
        finally:
            (folder / "source").rmdir()
            aside.rename(folder / "source")

    def no_live_run_was_closed(self, server: Server, before: set[str], victims: set[int]) -> None:
        """See that who was closed as dead is somebody that this script killed."""
        for each in server.runs():
            if each.run_id in before or each.status != "FAILURE":
                continue
            said = " ".join(str(event.get("message")) for event in server.events(each.run_id))
            found = re.search(r"The process (\d+) that ran this is gone|No process ever took this run up", said)
            if found and (found[1] is None or int(found[1]) not in victims):
                raise Broken(f"a live run was closed: {found[0]}")

    def killed(self) -> str:
        """Kill -9 at a random moment of a first run, then run."""
        with self.trial() as folder:
            process = start(folder)
            # The first third is loading libraries.
            after = self.rng.uniform(self.lasts * 0.3, self.lasts)
            time.sleep(after)
            kill(process)
            stage = stage_of(folder)
            leave_spill(folder)
            self.heal(folder, f"killed after {after:.2f} s ({stage})")
        return f"killed after {after:.2f} s of {self.lasts:.1f} s: {stage}"

    def serve(self) -> Server:
        """Return a running `dagster dev`, the same one for many trials; after its death it comes back over its history."""
        if self.server is None:
            more = {name: value for name, value in environment().items() if name.startswith("RAGSPINE_")}
            self.server = self.serving.enter_context(running(self.site, RAGSPINE_AUTOMATION="0", **more))
        return self.server

    def end_server(self) -> None:
        """End the server and all that it started."""
        self.server = None
        self.serving.close()

    def heal_in_the_server(self, folder: Path, what: str) -> None:
        """Heal with a run that the UI launches, and see that it leaves no other one open."""
        server = self.serve()
        run_id = server.launch("refresh")
        try:
            status = server.wait_for(run_id, LIMIT_S)
        except AssertionError as late:
            raise Broken(f"{what}: {late}") from None
        if status != "SUCCESS":
            said = [event for event in server.events(run_id) if "Fail" in str(event["__typename"])]
            raise Broken(f"{what}: the next run ended as {status}:\n{str(said)[:2000]}")
        prove(folder, self.expected, self.snapshot, what)
        if left := [run for run in server.runs() if run.status not in ENDED]:
            raise Broken(f"{what}: runs are left open: {left}")

    def killed_in_the_server(self) -> str:
        """Kill -9 the process of a run that the UI launched, at a random moment, then run from the UI or a terminal."""
        with self.trial_of_the_site() as folder:
            server = self.serve()
            run_id = server.launch("refresh")
            until = time.monotonic() + 60
            while (process := server.process_of(run_id)) is None:
                if time.monotonic() > until:
                    raise Broken(f"a run is not taken up within 60 s; it is {server.status(run_id)}")
                time.sleep(0.05)
            after = self.rng.uniform(0, self.lasts * 0.7)
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            no_workers_of(process)
            stage = stage_of(folder)
            leave_spill(folder)
            if self.rng.random() < 0.5:
                self.heal_in_the_server(folder, f"run killed ({stage})")
                by = "the UI"
            else:
                self.heal(folder, f"run killed ({stage})")
                by = "a terminal"
            # Of a run that died the server tells within a few seconds, or whoever ran next.
            status = server.wait_for(run_id, 60)
        return f"run of the UI killed {after:.2f} s after its start: {stage}, told as {status}; healed by {by}"

    def server_killed(self) -> str:
        """Kill -9 a server and all it started while a run of it is queued or at work; then start it again, and run."""
        with self.trial_of_the_site() as folder:
            server = self.serve()
            run_id = server.launch("refresh")
            # A run lies in the queue for up to five seconds.
            after = self.rng.uniform(1, self.lasts + 5)
            time.sleep(after)
            process = server.process_of(run_id)
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            if process:
                no_workers_of(process)
            self.end_server()
            stage = stage_of(folder)
            leave_spill(folder)
            self.heal_in_the_server(folder, f"server killed ({stage})")
            status = self.serve().status(run_id)
        return f"server killed {after:.2f} s after a launch: {stage}, its run told as {status}"

    def killed_again_and_again(self) -> str:
        """Kill three runs one after the other, then run."""
        with self.trial() as folder:
            moments = [self.rng.uniform(0.5, self.lasts) for _ in range(3)]
            for after in moments:
                process = start(folder)
                time.sleep(after)
                kill(process)
            self.heal(folder, "killed three times")
        return "killed three times"

    def killed_in_a_change(self) -> str:
        """Kill -9 while a tenth of the files is new and a label is raised; the label must count at once."""
        with self.trial(filled=True) as folder:
            metadata = folder / "source" / "metadata.csv"
            before = metadata.read_text()
            metadata.write_text(before + "part1/d1.md,RESTRICTED,\n")
            text = (folder / "source" / "part2" / "d2.md").read_text()
            (folder / "source" / "part2" / "d2.md").write_text("Another text.\n")
            process = start(folder)
            time.sleep(self.rng.uniform(1.0, self.lasts))
            kill(process)
            metadata.write_text(before)
            (folder / "source" / "part2" / "d2.md").write_text(text)
            self.heal(folder, "killed in a change")
        return "killed in a change that was then taken back"

    def two_at_once(self) -> str:
        """Start two runs, and checks beside them, at once; each ends well."""
        with self.trial() as folder:
            both = [start(folder), start(folder)]
            time.sleep(self.rng.uniform(0, 2))
            both.append(start(folder, "checks"))
            ends = [finish(process) for process in both]
            for code, output in ends[:2]:
                if code != 0:
                    raise Broken(f"two at once: one failed:\n{output[-2000:]}")
            if ends[2][0] != 0 and "FAILED" in ends[2][1] and "is still at work" not in ends[2][1]:
                raise Broken(f"checks beside two runs failed:\n{ends[2][1][-2000:]}")
            self.heal(folder, "two at once")
        return "two runs and checks at once"

    def launched_at_once(self) -> str:
        """Launch two runs at once, each from a terminal, from a terminal with another history, or from the UI."""
        with self.trial_of_the_site() as folder:
            server = self.serve()
            kinds = [self.rng.choice(["terminal", "terminal elsewhere", "UI"]) for _ in range(2)]
            launched: list[subprocess.Popen[str] | str] = [
                server.launch("refresh")
                if kind == "UI"
                else start(folder, **({} if kind == "terminal" else {"DAGSTER_HOME": str(self.elsewhere())}))
                for kind in kinds
            ]
            for kind, one in zip(kinds, launched, strict=True):
                if isinstance(one, str):
                    status = server.wait_for(one, LIMIT_S)
                    code, output = int(status != "SUCCESS"), str(server.events(one))
                else:
                    code, output = finish(one)
                if code != 0:
                    raise Broken(f"{' and '.join(kinds)} at once: {kind} failed:\n{output[-2000:]}")
            self.heal(folder, f"{kinds} at once")
        return f"{' and '.join(kinds)} at once"

    def elsewhere(self) -> Path:
        """Return a folder for another history."""
        home = self.folder / "elsewhere"
        home.mkdir(exist_ok=True)
        shutil.copy(ROOT / "dagster.yaml", home)
        return home

    def held_by_another(self) -> str:
        """Run while another process holds the store for ever: the run says who it is, and loses nothing."""
        with self.trial(filled=True) as folder:
            code = "import duckdb, time; c = duckdb.connect('s.duckdb'); print('held', flush=True); time.sleep(600)"
            holder = subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True)
            try:
                assert holder.stdout is not None
                holder.stdout.readline()
                failed, output = run(folder, RAGSPINE_WAIT_S="1")
            finally:
                holder.kill()
                holder.communicate()
            if failed != 1 or f"process {holder.pid}" not in output:
                raise Broken(f"a held store is not told as such:\n{output[-2000:]}")
            self.heal(folder, "held by another")
        return "the store held by another process"

    def searched_in_a_loop(self) -> str:
        """Run while readers open the snapshot and the store in a loop."""
        code = (
            "import time\nfrom ragspine_assets.serving import Snapshot\nfrom ragspine_assets.store import ChunkStore\n"
            "until = time.monotonic() + 8\n"
            "while time.monotonic() < until:\n"
            "    Snapshot.open('snapshots').retriever().retrieve('turbine copper')\n"
            "    with ChunkStore('s.duckdb', wait_s=60).connect() as c: c.execute('SELECT count(*) FROM document')\n"
        )
        with self.trial(filled=True) as folder:
            changed = folder / "source" / "part2" / "d2.md"
            text = changed.read_text()
            reader = subprocess.Popen(
                [sys.executable, "-c", code], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
            )
            changed.write_text("Another text about a turbine.\n")
            code_of_run, output = run(folder)
            _, errors = reader.communicate(timeout=LIMIT_S)
            if code_of_run != 0 or reader.returncode != 0:
                raise Broken(f"readers and a run disturb each other:\n{output[-1500:]}\n{errors[-1500:]}")
            changed.write_text(text)
            self.heal(folder, "searched in a loop")
        return "readers in a loop"

    def full_disk(self) -> str:
        """Run on a disk that is too small, at whatever stage that shows; then with room."""
        if os.geteuid() != 0:
            return "full disk: skipped, needs root to mount a tmpfs"
        size = next(self.sizes)
        with self.trial() as outside:
            folder = outside / "disk"
            folder.mkdir()
            options = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)]
            if subprocess.run(options, capture_output=True).returncode != 0:
                return "full disk: skipped, a tmpfs cannot be mounted here"
            # The source does not count: it is on another disk, as the run records are.
            for name in ("source", "profile.toml", "facts.csv"):
                (folder / name).symlink_to(outside / name)
            try:
                elsewhere, home = str(outside / "source"), str(outside / ".home")
                (outside / ".home").mkdir()
                shutil.copy(ROOT / "dagster.yaml", outside / ".home")
                code, output = run(folder, RAGSPINE_SOURCE=elsewhere, DAGSTER_HOME=home)
                if code not in (0, 1) or "Traceback" in output:
                    raise Broken(f"a full disk ({size} kB) ends badly:\n{output[-2000:]}")
                if code == 1 and not re.search(r"FAILED|BROKEN|cannot be read or written", output):
                    raise Broken(f"a full disk ({size} kB) is not told:\n{output[-2000:]}")
                if SECRET in output:
                    raise Broken("the output quotes a document")
                subprocess.run(["mount", "-o", "remount,size=300m", str(folder)], check=True)
                self.heal(folder, f"full disk of {size} kB", RAGSPINE_SOURCE=elsewhere, DAGSTER_HOME=home)
            finally:
                subprocess.run(["umount", "-l", str(folder)], check=False)
        return f"a disk of {size} kB, exit {code}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--stretch", type=float, default=120, help="seconds of the busy stretch")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="name of one trial")
    parser.add_argument("--trials", type=int, default=0, help="how many trials; --seconds does not count then")
    given = parser.parse_args()
    until = time.monotonic() + (float("inf") if given.trials else given.seconds)
    broken = 0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(Path(folder), given.documents, given.seed)
        print(
            f"seed {given.seed}: {given.documents} documents, an undisturbed run takes {soak.lasts:.1f} s", flush=True
        )
        soak.stretch_s = given.stretch
        once: list[Callable[[], str]] = [
            soak.a_busy_stretch, soak.held_by_another, soak.two_at_once, soak.launched_at_once, soak.searched_in_a_loop, soak.killed_in_a_change,
            soak.killed_again_and_again, soak.full_disk, soak.server_killed,
        ]  # fmt: skip
        trials = [*once, *([soak.killed, soak.killed_in_the_server] * 2)] * 1000
        if given.only:
            trials = [getattr(soak, given.only)] * 1000
        for number, trial in enumerate(trials, 1):
            if time.monotonic() > until or number > (given.trials or number):
                break
            started = time.monotonic()
            try:
                said = trial()
                print(f"{number:4} holds  {time.monotonic() - started:5.1f} s  {said}", flush=True)
            except Broken as fault:
                broken += 1
                print(f"{number:4} BROKEN {time.monotonic() - started:5.1f} s  {fault}", flush=True)
        soak.end_server()
    print(f"{broken} trials broke a promise." if broken else "Nothing was lost and nothing leaked.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
