"""Worker processes that read documents and may be killed (SPEC 6.5).

One thread drives one worker: it starts it, hands it a batch, listens, and kills it when it stays silent for too long.
The worker announces each file before it touches it, so that a death is charged to one file; the rest of the batch goes
to the next worker.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, cast

import pyarrow as pa

from ragspine_assets.errors import RagspineError

from . import confinement
from .extraction import ExtractionLimits
from .source import SourceFile, SourceReader, UnsafeFileError
from .worker import (
    DEFAULT_PARSER,
    batch_from_bytes,
    extract_batch,
    failed_row,
    hand_over,
    read_frame,
    rows_to_batch,
    write_job,
    write_trial,
)


class WorkerStartError(RagspineError, RuntimeError):
    """Worker processes do not start, or cannot read a sound file either: the machine is at fault, not a document."""


class _WorkerDied(Exception):
    """The worker is gone; ``how`` says it in a person's words."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class _WorkerSilent(Exception):
    """The worker said nothing within its time."""


class _Closed(Exception):
    """The pool was closed while a batch was in work."""


_START_SECONDS = 60.0
_START_ATTEMPTS = 2
# Files that fail at the start of a run, before any succeeds, until a worker must show that it can read a sound one.
_FAILURES_BEFORE_TRIAL = 10
_REPAIR = (
    "Documents are not at fault: look for a lack of memory, processes, open files (ulimit -a) or room in the temporary "
    "folder, try `python -c 'import lxml.etree, pypdfium2, pyarrow'` with this interpreter, and run again."
)
_TEMPORARY = "ragspine-workers-"
# Younger ones may belong to a process that has not taken its lock yet.
_LEFT_BEHIND_AFTER_S = 60.0


def batch_files(
    files: Iterable[SourceFile], *, max_files: int = 64, max_bytes: int = 2**20
) -> Iterator[list[SourceFile]]:
    """Group files, in their order, into batches for ``ExtractionPool.run``.

    Args:
        files: consumed lazily.
        max_files: files of one batch at most.
        max_bytes: bytes of one batch at most; a larger file is a batch of its own. Small batches share the work
            evenly: a megabyte of PDF takes a worker a second or more.
    """
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) >= max_files or size + file.size > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def gather_rows(
    batches: Iterable[pa.RecordBatch], *, max_rows: int = 1024, max_bytes: int = 8 * 2**20, max_seconds: float = 1.0
) -> Iterator[pa.RecordBatch]:
    """Join record batches, in their order, as they come, so that one transaction holds what is worth one.

    Args:
        batches: what ``ExtractionPool.run`` yields.
        max_rows: rows from which on a joined batch is given.
        max_bytes: bytes from which on it is.
        max_seconds: age of its first rows from which on it is given at the next arrival; a slow parser's rows are hardly
            ever joined, those of small files by the thousand.
    """
    held: list[pa.RecordBatch] = []
    rows, size, since = 0, 0, 0.0
    for batch in batches:
        if not held:
            rows, size, since = 0, 0, time.monotonic()
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= max_rows or size >= max_bytes or time.monotonic() - since >= max_seconds:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


class _Worker:
    """One worker process, as the thread that drives it sees it."""

    def __init__(self, parser: str, memory_bytes: int, folder: str, readable: Sequence[str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = self._started(parser, memory_bytes, folder, readable, theirs.fileno())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._readable = selectors.DefaultSelector()
        self._readable.register(self._answers, selectors.EVENT_READ)

    def _started(
        self, parser: str, memory_bytes: int, folder: str, readable: Sequence[str], channel: int
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable, confinement.__file__, folder, str(len(readable)), *readable,
                str(os.getpid()), parser, str(memory_bytes), str(channel),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(folder),
            cwd=folder,
            pass_fds=(channel,),
            # A Ctrl-C at the terminal is meant for the parent, which decides what becomes of its workers.
            start_new_session=True,
        )  # fmt: skip

    def send(self, files: Sequence[SourceFile], limits: ExtractionLimits) -> None:
        try:
            write_job(self._requests, files, limits)
        except (OSError, ValueError):
            raise _WorkerDied(self._how_it_died()) from None

    def hand(self, reader: SourceReader, file: SourceFile) -> None:
        """Open a file that the worker has announced, and hand it over."""
        handle, reason = None, ""
        try:
            handle = reader.open(file)
        except UnsafeFileError as problem:
            reason = str(problem)
        try:
            hand_over(self._channel, handle, reason)
        except OSError:
            raise _WorkerDied(self._how_it_died()) from None
        finally:
            if handle is not None:
                os.close(handle)

    def send_trial(self, suffix: str, limits: ExtractionLimits) -> None:
        try:
            write_trial(self._requests, suffix, limits)
        except (OSError, ValueError):
            raise _WorkerDied(self._how_it_died()) from None

    def receive(self, seconds: float) -> tuple[dict[str, object], bytes]:
        """The next frame, which must be complete within ``seconds``."""
        deadline = time.monotonic() + seconds

        def exactly(size: int) -> bytes:
            data = bytearray()
            while len(data) < size:
                if not self._readable.select(max(0.0, deadline - time.monotonic())):
                    raise _WorkerSilent
                part = os.read(self._answers.fileno(), min(size - len(data), 1 << 20))
                if not part:
                    raise _WorkerDied(self._how_it_died())
                data += part
            return bytes(data)

        return read_frame(exactly)

    def _how_it_died(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its output"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
            return f"was ended by signal {-code}"
        return f"ended with exit code {code}"

    @property
    def process_id(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End the process; may be called from any thread, more than once."""
        self._process.kill()

    def end(self) -> None:
        """End the process and free what belongs to it; only for the thread that drives it."""
        self._process.kill()
        self._process.wait()
        self._readable.close()
        self._channel.close()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()


def _environment(folder: str) -> dict[str, str]:
    # A worker imports what its parent can import, and nothing from the folder it happens to be started in. One thread
    # per worker: the pool is the parallelism, and native thread pools would count every processor of the machine.
    # Parsers unpack libraries into the temporary folder and load them from there: nobody else may write it.
    return confinement.inherited(dict(os.environ)) | {
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry),
        "PYTHONSAFEPATH": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKIO_WORKER_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }


class _PrivateFolder:
    """A folder that only this user may enter, for what workers write; gone when closed, or when the next one is made."""

    def __init__(self) -> None:
        self._path = tempfile.mkdtemp(prefix=_TEMPORARY)
        # The kernel frees the lock when its holder dies, however that ends.
        self._held = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = os.path.join(self._path, "own")
        os.mkdir(self.path, 0o700)
        _remove_left_behind(os.path.dirname(self._path))

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._held)


def _remove_left_behind(parent: str) -> None:
    """Remove folders of this user whose process was killed."""
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith(_TEMPORARY):
            continue
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                info = os.fstat(handle)
                old = time.time() - info.st_mtime > _LEFT_BEHIND_AFTER_S
                if old and info.st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


class _BatchDone:
    pass


_Result = pa.RecordBatch | _BatchDone | BaseException


class ExtractionPool:
    """Reads documents in processes that can be killed; a context manager (SPEC 6.5).

    A parser that hangs, crashes or eats memory costs the file in hand, which becomes ``failed`` with ``retry`` set, and
    nothing else. Workers start when there is work for them and die with the pool and with this process, however that
    ends. Where the first ten files all fail, a worker is handed a sound one: if that fails too, no document is at fault
    but the machine, and the run ends instead of calling every file bad.

    Args:
        root: the source root; nothing outside is read.
        limits: what one file may cost.
        workers: processes at most; by default the number of processors, four at most. With 0 files are read in this
            process, where nothing bounds the time and memory of a parser.
        parser: the function that reads one file, as ``module:function``; importable in a fresh process.
        grace_s: seconds behind ``limits.time_limit_s``, which parsers are asked to keep themselves, before a worker is
            killed.
        progress: called in the consumer's thread as ``progress(done_files, failed_files)`` after each record batch.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        limits: ExtractionLimits | None = None,
        *,
        workers: int | None = None,
        parser: str = DEFAULT_PARSER,
        grace_s: float = 5.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if workers is not None and workers < 0:
            raise ValueError(f"workers must be at least 0, not {workers}")
        self._root = os.fspath(root)
        self._limits = limits or ExtractionLimits()
        self._workers = min(os.cpu_count() or 1, 4) if workers is None else workers
        self._parser = parser
        self._readable = confinement.readable_paths(parser)
        self._folder: _PrivateFolder | None = None
        self._taken: frozenset[str] | None = None
        self._patience = self._limits.time_limit_s + grace_s
        self._progress = progress
        self._batches: queue.SimpleQueue[Sequence[SourceFile] | None] = queue.SimpleQueue()
        # Bounded, so that a slow consumer slows the workers and not the machine.
        self._results: queue.Queue[_Result] = queue.Queue(maxsize=self._workers + 1)
        self._drivers: list[threading.Thread] = []
        self._alive: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._succeeded = False
        self._failures = 0
        self._doubted_suffix = ""
        self._next_trial = _FAILURES_BEFORE_TRIAL

    def __enter__(self) -> Self:
        """Return the pool; processes start with the first batches."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill and reap every worker."""
        self.close()

    def close(self) -> None:
        """Kill and reap every worker; what is in work is lost. May be called twice."""
        with self._lock:
            self._closing = True
            for worker in self._alive:
                worker.kill()
        for _ in self._drivers:
            self._batches.put(None)
        for driver in self._drivers:
            if driver is not threading.current_thread():
                driver.join()
        self._drivers.clear()
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()

    def unconfined(self) -> list[str]:
        """Return what the kernel did not take from the workers that were started, of ``confinement.PROMISED``."""
        with self._lock:
            return [] if self._taken is None else [part for part in confinement.PROMISED if part not in self._taken]

    def worker_process_ids(self) -> list[int]:
        """Return the process ids of the workers that are alive, in ascending order."""
        with self._lock:
            return sorted(worker.process_id for worker in self._alive)

    def run(self, batches: Iterable[Sequence[SourceFile]]) -> Iterator[pa.RecordBatch]:
        """Read batches of files and yield what they say, as it gets ready.

        Every file gives exactly one row of ``EXTRACTED_SCHEMA``. The order of rows and their division into record
        batches depend on timing; their content does not. ``batches`` is pulled lazily, at most one batch ahead of the
        workers. An iterator that is not used up closes the pool.

        Raises:
            WorkerStartError: no worker can be started, or none can read a sound file.
            RuntimeError: the pool is closed.
        """
        if self._closing:
            raise RuntimeError("this extraction pool is closed")
        complete = False
        done = failed = 0
        try:
            for rows in self._read_by_workers(batches) if self._workers else self._read_here(batches):
                done += rows.num_rows
                failed += rows.column("status").to_pylist().count("failed")
                yield rows
                if self._progress is not None:
                    self._progress(done, failed)
            complete = True
        finally:
            if not complete:
                self.close()

    def _read_here(self, batches: Iterable[Sequence[SourceFile]]) -> Iterator[pa.RecordBatch]:
        for batch in filter(None, batches):
            yield extract_batch(self._root, batch, self._limits, parser=self._parser)

    def _read_by_workers(self, batches: Iterable[Sequence[SourceFile]]) -> Iterator[pa.RecordBatch]:
        waiting = iter(batches)
        in_flight = 0
        more = True
        while True:
            while more and in_flight <= self._workers:
                batch = next(waiting, None)
                if batch is None:
                    more = False
                elif batch:
                    self._submit(batch, in_flight)
                    in_flight += 1
            if not in_flight:
                break
            result = self._results.get()
            if isinstance(result, _BatchDone):
                in_flight -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result

    def _submit(self, batch: Sequence[SourceFile], in_flight: int) -> None:
        if len(self._drivers) < self._workers and in_flight >= len(self._drivers):
            driver = threading.Thread(target=self._drive, name="extraction", daemon=True)
            self._drivers.append(driver)
            driver.start()
        self._batches.put(batch)

    def _drive(self) -> None:
        """Body of a driver thread: own one worker at a time until the pool closes.

        The worker must be started by a thread that outlives it: on Linux a child is told of the death of the thread
        that started it.
        """
        worker: _Worker | None = None
        try:
            while (batch := self._batches.get()) is not None and not self._closing:
                worker = self._extract(batch, worker)
                self._answer(_BatchDone())
        except _Closed:
            pass
        except BaseException as problem:
            with contextlib.suppress(_Closed):
                self._answer(problem)
        finally:
            self._retire(worker)

    def _answer(self, result: _Result) -> None:
        while not self._closing:
            with contextlib.suppress(queue.Full):
                self._results.put(result, timeout=0.1)
                return
        raise _Closed

    def _start(self) -> _Worker:
        with self._lock:
            if self._closing:
                raise _Closed
            try:
                if self._folder is None:
                    self._folder = _PrivateFolder()
                worker = _Worker(self._parser, self._limits.memory_bytes, self._folder.path, self._readable)
            except OSError as problem:
                raise WorkerStartError(f"a worker process cannot be started: {problem}. {_REPAIR}") from problem
            self._alive.add(worker)
        try:
            answer, _ = worker.receive(_START_SECONDS)
        except _WorkerSilent:
            self._retire(worker)
            raise WorkerStartError(f"a worker process was not ready within {_START_SECONDS:g} s. {_REPAIR}") from None
        except _WorkerDied as death:
            self._retire(worker)
            if self._closing:
                raise _Closed from None
            raise WorkerStartError(f"a worker process {death.how} at its start. {_REPAIR}") from None
        if answer["event"] != "ready":
            self._retire(worker)
            raise WorkerStartError(
                f"a worker process cannot load its parser {self._parser!r}: {answer['reason']}. {_REPAIR}"
            )
        with self._lock:
            taken = frozenset(cast("list[str]", answer["taken"]))
            self._taken = taken if self._taken is None else self._taken & taken
        return worker

    def _retire(self, worker: _Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._alive.discard(worker)
            worker.end()

    def _extract(self, batch: Sequence[SourceFile], worker: _Worker | None) -> _Worker | None:
        """Answer for every file of a batch, with as many workers as that takes; return the last one."""
        with SourceReader(self._root) as reader:
            return self._extract_with(reader, list(batch), worker)

    def _extract_with(self, reader: SourceReader, waiting: list[SourceFile], worker: _Worker | None) -> _Worker | None:
        innocent_deaths = 0
        while True:
            worker = worker or self._start()
            answered: set[int] = set()
            in_hand: int | None = None
            try:
                worker.send(waiting, self._limits)
                while len(answered) < len(waiting):
                    header, payload = worker.receive(self._patience)
                    if header["event"] == "begin":
                        in_hand = int(str(header["index"]))
                        worker.hand(reader, waiting[in_hand])
                    else:
                        rows = batch_from_bytes(payload)
                        # Rows come in the order of the files, each exactly once.
                        answered.update(range(len(answered), len(answered) + rows.num_rows))
                        in_hand = None
                        self._tell(rows)
                        if header["leaving"]:
                            self._retire(worker)
                            worker = None
                            break
            except (_WorkerDied, _WorkerSilent) as problem:
                self._retire(worker)
                worker = None
                if self._closing:
                    raise _Closed from None
                if in_hand is None:
                    innocent_deaths += 1
                    if innocent_deaths >= _START_ATTEMPTS:
                        raise WorkerStartError(
                            f"worker processes die before they take a file (the last one {_how(problem)}). {_REPAIR}"
                        ) from None
                else:
                    innocent_deaths = 0
                    self._tell(rows_to_batch([failed_row(waiting[in_hand], self._verdict(problem), retry=True)]))
                    answered.add(in_hand)
            if self._is_trial_due():
                worker = worker or self._start()
                self._try(worker, self._doubted_suffix)
            waiting = [file for index, file in enumerate(waiting) if index not in answered]
            if not waiting:
                return worker

    def _tell(self, rows: pa.RecordBatch) -> None:
        """Hand rows to the consumer, and count how many files failed before one succeeded."""
        states = zip(rows.column("status").to_pylist(), rows.column("suffix").to_pylist(), strict=True)
        failed = [str(suffix) for status, suffix in states if status == "failed"]
        with self._lock:
            self._succeeded = self._succeeded or len(failed) < rows.num_rows
            if failed:
                self._failures += len(failed)
                self._doubted_suffix = failed[-1]
        self._answer(rows)

    def _is_trial_due(self) -> bool:
        with self._lock:
            if self._succeeded or self._failures < self._next_trial:
                return False
            self._next_trial = 2 * self._failures
            return True

    def _try(self, worker: _Worker, suffix: str) -> None:
        """Have a worker read a sound file.

        Raises:
            WorkerStartError: it cannot.
        """
        try:
            worker.send_trial(suffix, self._limits)
            answer, _ = worker.receive(self._patience)
            problem = str(answer["reason"])
        except (_WorkerDied, _WorkerSilent) as death:
            problem = f"the process {_how(death)}"
        if problem or self._closing:
            self._retire(worker)
        if self._closing:
            raise _Closed
        if problem:
            raise WorkerStartError(
                f"the first {self._failures} files all failed, and a worker process cannot read a sound {suffix} file either "
                f"({problem}). {_REPAIR}"
            )

    def _verdict(self, problem: _WorkerDied | _WorkerSilent) -> str:
        if isinstance(problem, _WorkerSilent):
            return f"its parser did not end within the time limit of {self._limits.time_limit_s:g} s and was stopped"
        memory = self._limits.memory_bytes / 2**20
        return (
            f"its parser crashed (its process {problem.how}): "
            f"the file may be damaged, or need more than the {memory:,.0f} MiB it may use"
        )


def _how(problem: _WorkerDied | _WorkerSilent) -> str:
    return problem.how if isinstance(problem, _WorkerDied) else "said nothing"
