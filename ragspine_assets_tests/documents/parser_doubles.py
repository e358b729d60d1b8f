"""Parsers that misbehave, for workers to be tried on: ``module:function`` names one.

What a double does is told by the first line of the file it is given, so that one batch can hold all kinds.
"""

import ctypes
import os
import sys
import time

from ragspine_assets.documents.extraction import Extracted, ExtractionError, ExtractionLimits, TimeLimitError


def _plain(data: bytes) -> Extracted:
    return Extracted(data.decode(), "plain", "double 1", title=str(os.getpid()))


def obedient(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Do what the first word of the file says; the title is the process that did it."""
    word = data.split(maxsplit=1)[0].decode() if data.strip() else ""
    action = _ACTIONS.get(word)
    if action is not None:
        action()
    return _plain(data)


def _hold_the_interpreter() -> None:
    # PyDLL keeps the interpreter lock, as a native parser does that never looks up.
    ctypes.PyDLL(None).sleep(600)


def _sleep_without_it() -> None:
    ctypes.CDLL(None).sleep(600)


def _crash() -> None:
    ctypes.string_at(0)


def _abort() -> None:
    os.abort()


def _eat_memory() -> None:
    hoard = []
    while True:
        hoard.append(bytearray(16 << 20))


def _eat_native_memory() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    while True:
        block = libc.malloc(16 << 20)
        if not block:
            os.abort()
        libc.memset(block, 1, 16 << 20)


def _chatter() -> None:
    print("SECRET on stdout", flush=True)
    print("SECRET on stderr", file=sys.stderr, flush=True)
    os.write(1, b"SECRET on descriptor 1\n")
    os.write(2, b"SECRET on descriptor 2\n")


def _raise() -> None:
    raise ValueError("SECRET words of the document")


def _panic() -> None:
    raise BaseException("SECRET words of a panic")


def _leave() -> None:
    sys.exit("SECRET")


def _quit() -> None:
    os._exit(3)


def _give_up() -> None:
    raise TimeLimitError("its parser gave up", retry=True)


def _refuse() -> None:
    raise ExtractionError("it is refused")


def _linger() -> None:
    time.sleep(1.2)


_ACTIONS = {
    "HOLD": _hold_the_interpreter,
    "SLEEP": _sleep_without_it,
    "CRASH": _crash,
    "ABORT": _abort,
    "EAT": _eat_memory,
    "EAT_NATIVE": _eat_native_memory,
    "CHATTER": _chatter,
    "RAISE": _raise,
    "PANIC": _panic,
    "LEAVE": _leave,
    "QUIT": _quit,
    "GIVE_UP": _give_up,
    "REFUSE": _refuse,
    "LINGER": _linger,
}


def modules(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Say which heavy modules this process has imported so far."""
    heavy = ("dagster", "duckdb", "kreuzberg", "matplotlib", "pandas")
    return Extracted(" ".join(name for name in heavy if sys.modules.get(name)) or "none", "plain", "double 1")


def broken(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Fail whatever the file is, as on a machine whose parser does not work; its first word says how."""
    word = data.split(maxsplit=1)[0].decode() if data.strip() else ""
    _ACTIONS.get(word, _quit)()
    return _plain(data)


def without_its_library(data: bytes, suffix: str, limits: ExtractionLimits) -> Extracted:
    """Miss a library whatever the file is."""
    raise ImportError("SECRET")
