"""The unit of extraction work, and the process that does it (SPEC 1.3, 1.6, 6.5).

``extract_batch`` is a pure function from references to files to one Arrow record batch, so that it can run anywhere.
``main`` runs it in a process of its own, where a parser may hang, crash or eat memory without hurting anybody: it
takes batches on its standard input and answers on its standard output, in frames of a JSON header and an Arrow stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import queue
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import IO, cast

import pyarrow as pa

from ragspine_assets.policy.labelling import Aside, FileLabels

from .arrow import leave_pandas_alone
from .asides import read_file_labels
from .decoding import UndecodableText, decode_text
from .extraction import (
    Extracted,
    ExtractionError,
    ExtractionLimits,
    TimeLimitError,
    parser_for,
    sound_sample,
)
from .frontmatter import FrontMatter, label_block, label_in_head, split_front_matter
from .normalise import normalise_text, paragraphs
from .source import SourceFile, UnsafeFileError, open_inside, read_regular

EXTRACTED_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("suffix", pa.string()),
        ("bytes", pa.int64()),
        ("content_hash", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("retry", pa.bool_()),
        ("markup", pa.string()),
        ("parser", pa.string()),
        ("encoding", pa.string()),
        ("encoding_found_by", pa.string()),
        ("pages", pa.int32()),
        ("page_starts", pa.list_(pa.int32())),
        ("characters", pa.int64()),
        ("paragraphs", pa.int32()),
        ("text_hash", pa.string()),
        ("left_out", pa.string()),
        ("title", pa.string()),
        ("front_matter", pa.string()),
        ("front_matter_problem", pa.string()),
        ("file_labels", pa.large_string()),
        ("text", pa.large_string()),
    ]
)
"""Columns of what extraction says about a file; no column is ever null."""

DEFAULT_PARSER = "ragspine_assets.documents.extraction:extract_bytes"
"""Where a worker finds the function that reads one file, as ``module:function``."""

Parser = Callable[[bytes, str, ExtractionLimits], Extracted]

Row = dict[str, object]
"""One row of ``EXTRACTED_SCHEMA``."""

_FRONT_MATTER_SUFFIXES = frozenset({".md", ".markdown"})
# Formats whose text is not what stands in the file: comments are gone, lines are joined.
_PARSED_SUFFIXES = frozenset({".rst", ".html", ".htm"})
_HEAD_SUFFIXES = _FRONT_MATTER_SUFFIXES | _PARSED_SUFFIXES | {".txt"}
_HEAD_BYTES = 8 << 10


def failed_row(file: SourceFile, reason: str, *, retry: bool, data: bytes | None = None) -> Row:
    """Return the row of a file that could not be read; ``reason`` must hold no text of the document."""
    return _row(file, data, reason=reason, retry=retry)


def _row(file: SourceFile, data: bytes | None, **values: object) -> Row:
    row: Row = {
        "doc_id": file.doc_id,
        "suffix": file.suffix,
        "bytes": len(data) if data is not None else 0,
        "content_hash": hashlib.sha256(data).hexdigest() if data is not None else "",
        "status": "failed",
        "reason": "",
        "retry": False,
        "markup": "plain",
        "parser": _parser_of(file),
        "encoding": "",
        "encoding_found_by": "",
        "pages": 0,
        "page_starts": [],
        "characters": 0,
        "paragraphs": 0,
        "text_hash": "",
        "left_out": "",
        "title": "",
        "front_matter": "",
        "front_matter_problem": "",
        "file_labels": "",
        "text": "",
    }
    row.update(values)
    return row


def _parser_of(file: SourceFile) -> str:
    try:
        return parser_for(file.suffix)
    except KeyError:
        return ""


def _extract_one(
    read: Callable[[], bytes], file: SourceFile, limits: ExtractionLimits, parse: Parser
) -> tuple[Row, bool]:
    """The row of one file, whatever happens to it, and whether this process should read no other file after it.

    A parser that gave up at its time limit leaves threads behind that go on, one that ran out of memory a heap that is
    full.
    """
    data: bytes | None = None
    try:
        data = read()
        return _read_row(file, data, parse(data, file.suffix, limits)), False
    except ExtractionError as problem:
        return failed_row(file, problem.reason, retry=problem.retry, data=data), isinstance(problem, TimeLimitError)
    except UnsafeFileError as problem:
        return failed_row(file, str(problem), retry=True), False
    except MemoryError:
        reason = f"it needs more than the {limits.memory_bytes / 2**20:,.0f} MiB of memory it may use"
        return failed_row(file, reason, retry=True, data=data), True
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        # Panics of native parsers are no Exception. What any of them says may quote the document. A library that is
        # missing and a disk that is full are no fault of the bytes.
        retry = isinstance(problem, (ImportError, OSError))
        return failed_row(file, f"its parser failed ({type(problem).__name__})", retry=retry, data=data), False


def _read_row(file: SourceFile, data: bytes, extracted: Extracted) -> Row:
    text, block, problem = extracted.text, "", ""
    if file.suffix in _FRONT_MATTER_SUFFIXES:
        front_matter = split_front_matter(text)
        text, block, problem = front_matter.body, front_matter.block, front_matter.problem
    else:
        front_matter = FrontMatter()
    if file.suffix in _HEAD_SUFFIXES and not problem and "sensitivity" not in front_matter.values:
        label = label_in_head(text)
        if label is None and file.suffix in _PARSED_SUFFIXES:
            label = label_in_head(_head(data))
        if label is not None:
            block += label_block(label)
    count = len(paragraphs(text))
    if not count:
        text = ""
    return _row(
        file,
        data,
        status="ingested" if count else "no_text",
        markup=extracted.markup,
        parser=extracted.parser,
        encoding=extracted.encoding,
        encoding_found_by=extracted.encoding_found_by,
        pages=extracted.pages,
        page_starts=list(extracted.page_starts),
        characters=len(text),
        paragraphs=count,
        text_hash=hashlib.sha256(text.encode()).hexdigest(),
        left_out=extracted.left_out,
        title=extracted.title,
        front_matter=block,
        front_matter_problem=problem,
        file_labels=_file_labels(file, data, block, text).dump(),
        text=text,
    )


def _head(data: bytes) -> str:
    """Return the first lines of a file as they stand in it."""
    head = data[:_HEAD_BYTES]
    if len(data) > _HEAD_BYTES:
        # No character is cut in two where a line ends; two bytes are one in UTF-16.
        head = head[: (head.rfind(b"\n") + 1) or _HEAD_BYTES]
        head = head[: len(head) & ~1] if b"\0" in head else head
    try:
        return normalise_text(decode_text(head).text)
    except UndecodableText:
        return normalise_text(head.decode("latin-1"))


def _file_labels(file: SourceFile, data: bytes, block: str, text: str) -> FileLabels:
    """Return what the file says beside its text; its front matter is a part of that."""
    found = read_file_labels(data, file.suffix, text)
    return replace(found, asides=(Aside("front matter", "", block), *found.asides)) if block else found


def load_parser(name: str) -> Parser:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def rows_to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return the record batch of these rows, with ``EXTRACTED_SCHEMA``."""
    return pa.RecordBatch.from_pylist(list(rows), schema=EXTRACTED_SCHEMA)


def extract_batch(
    root: str | os.PathLike[str],
    files: Sequence[SourceFile],
    limits: ExtractionLimits | None = None,
    *,
    parser: str = DEFAULT_PARSER,
) -> pa.RecordBatch:
    """Read files and say what they hold, one row each, in their order (SPEC 1.3, 1.4, 6.5).

    A pure function of the files' bytes: each is read once, and its text and hash come from the same bytes. What goes
    wrong with a file stays in its row. Only memory and time of a parser are not bounded here; that takes a process of
    its own (``ExtractionPool``).

    Args:
        root: the source root.
        files: files of that root.
        limits: what one file may cost.
        parser: the function that reads one file's bytes, as ``module:function``.
    """
    limits = limits or ExtractionLimits()
    parse = load_parser(parser)
    return rows_to_batch(
        [
            _extract_one(partial(open_inside, root, file, max_bytes=limits.max_bytes), file, limits, parse)[0]
            for file in files
        ]
    )


# --- frames ------------------------------------------------------------------------------------------------------

_SIZES = struct.Struct(">IQ")
_LONGEST_REASON = 1024


def write_frame(stream: IO[bytes], header: Mapping[str, object], payload: bytes | memoryview = b"") -> None:
    """Write one frame: the sizes of header and payload, the header as JSON, the payload."""
    encoded = json.dumps(header).encode("ascii")
    stream.write(_SIZES.pack(len(encoded), len(payload)) + encoded)
    stream.write(payload)
    stream.flush()


def read_frame(exactly: Callable[[int], bytes]) -> tuple[dict[str, object], bytes]:
    """Read one frame with ``exactly(n)``, which gives ``n`` bytes or raises."""
    header_size, payload_size = _SIZES.unpack(exactly(_SIZES.size))
    return json.loads(exactly(header_size)), exactly(payload_size)


def write_job(stream: IO[bytes], files: Sequence[SourceFile], limits: ExtractionLimits) -> None:
    """Ask a worker to read these files, each of which it is handed when it has announced it (`hand_over`)."""
    references = [[file.doc_id, file.path, file.size, file.suffix] for file in files]
    write_frame(stream, {"files": references, "limits": asdict(limits)})


def hand_over(channel: socket.socket, handle: int | None, reason: str = "") -> None:
    """Hand an open file to a worker, or tell it why there is none; the caller closes its own descriptor.

    Args:
        channel: the parent's end of the pair.
        handle: the file.
        reason: why there is none, without any path.
    """
    socket.send_fds(channel, [reason.encode()[:_LONGEST_REASON] or b" "], [] if handle is None else [handle])


def _take(channel: socket.socket, max_bytes: int) -> bytes:
    """Return the bytes of the file that the parent hands over.

    Raises:
        UnsafeFileError: there is none, or it is none to read; the message is a reason without any path.
    """
    reason, handles, _, _ = socket.recv_fds(channel, _LONGEST_REASON, 1)
    if not handles:
        raise UnsafeFileError(reason.decode(errors="replace").strip() or "the file was not handed over")
    try:
        return read_regular(handles[0], max_bytes)
    finally:
        os.close(handles[0])


def write_trial(stream: IO[bytes], suffix: str, limits: ExtractionLimits) -> None:
    """Ask a worker whether it can read a sound file, such as it needs for files with this suffix."""
    write_frame(stream, {"trial": suffix, "limits": asdict(limits)})


def batch_from_bytes(payload: bytes) -> pa.RecordBatch:
    """Return the record batch a worker sent."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def _batch_to_bytes(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


# --- the process -------------------------------------------------------------------------------------------------

# Rows are sent before the batch is complete, so that little is done twice when a worker must be killed, and so that
# a batch of large texts is never held whole.
_FLUSH_SECONDS = 1.0
_FLUSH_CHARACTERS = 4_000_000


def main(arguments: Sequence[str], taken: Sequence[str] = ()) -> None:
    """Serve the parent process until it closes our standard input.

    Args:
        arguments: process id of the parent, name of the parser, bytes of memory this process may hold, and the descriptor
            over which files are handed to it.
        taken: what this process may not do any more (`confinement.PROMISED`).
    """
    parent, parser, memory_bytes, files = int(arguments[0]), arguments[1], int(arguments[2]), int(arguments[3])
    _die_with_parent(parent)
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        # Parsers print, native ones when they panic, and what they print quotes the document.
        os.dup2(nowhere, standard)
    try:
        parse = load_parser(parser)
    except Exception as problem:
        write_frame(answers, {"event": "broken", "reason": f"{type(problem).__name__}: {problem}"})
        return
    _limit_memory(memory_bytes)
    leave_pandas_alone()
    jobs: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, jobs), daemon=True).start()
    write_frame(answers, {"event": "ready", "taken": list(taken)})
    channel = socket.socket(fileno=files)
    while _serve(jobs.get(), parse, answers, channel):
        pass
    os._exit(0)


def _die_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends; end it now if that has happened already."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _limit_memory(memory_bytes: int) -> None:
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    # A crash must not leave the text of a document in a core file either.
    for limit, wanted in ((kind, memory_bytes), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        lowered = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (lowered, hard))


def _listen(requests: IO[bytes], jobs: queue.SimpleQueue[dict[str, object]]) -> None:
    def exactly(size: int) -> bytes:
        data = requests.read(size)
        if len(data) < size:
            raise EOFError
        return data

    try:
        while True:
            jobs.put(read_frame(exactly)[0])
    finally:
        # The parent closes this pipe when it wants nothing more, also by dying: then there is nobody to answer.
        os._exit(0)


def _serve(job: Mapping[str, object], parse: Parser, answers: IO[bytes], channel: socket.socket) -> bool:
    """Do one job, read files or show that it can; tell whether this process can go on."""
    if "trial" in job:
        write_frame(
            answers, {"event": "tried", "reason": _try(*cast("tuple[str, dict[str, int]]", tuple(job.values())), parse)}
        )
        return True
    references, limits = cast("tuple[list[tuple[str, str, int, str]], dict[str, int]]", tuple(job.values()))
    bounds = ExtractionLimits(**limits)
    rows: list[Row] = []
    characters, flushed = 0, time.monotonic()
    for index, reference in enumerate(references):
        write_frame(answers, {"event": "begin", "index": index})
        row, spent = _extract_one(partial(_take, channel, bounds.max_bytes), SourceFile(*reference), bounds, parse)
        rows.append(row)
        characters += len(str(row["text"]))
        due = characters > _FLUSH_CHARACTERS or time.monotonic() - flushed > _FLUSH_SECONDS
        if due or spent or index == len(references) - 1:
            write_frame(answers, {"event": "rows", "leaving": spent}, _batch_to_bytes(rows_to_batch(rows)))
            rows, characters, flushed = [], 0, time.monotonic()
        if spent:
            return False
    return True


def _try(suffix: str, limits: dict[str, int], parse: Parser) -> str:
    """Read a sound file; return what went wrong, or ''."""
    try:
        parse(*sound_sample(suffix), ExtractionLimits(**limits))
    except BaseException as problem:
        return problem.reason if isinstance(problem, ExtractionError) else type(problem).__name__
    return ""
