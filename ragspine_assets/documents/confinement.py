"""What a process that parses strangers' files may still do: read libraries, write its own folder, and nothing else.

A parser is native code that is fed by whoever wrote the file. On Linux the kernel takes from it, before anything else is
loaded: all files but libraries and one folder of its own (Landlock, https://docs.kernel.org/userspace-api/landlock.html),
sockets and other programs (seccomp, https://docs.kernel.org/userspace-api/seccomp_filter.html). The files that it reads are
handed to it open. Run as a program, so that no other thread exists yet, which would keep what this one gives up; for that
it imports nothing of this project first.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

ENVIRONMENT = frozenset(
    {
        "PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONHASHSEED",
        "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONWARNINGS", "COVERAGE_PROCESS_START",
    }
)  # fmt: skip
"""Variables that a worker inherits, beside those of the locale; none of them holds a key."""

FILES = "files"
SOCKETS = "sockets"
PROMISED = (FILES, SOCKETS)
"""What is taken from a worker where the kernel can: other files, and sockets with other programs."""

_LIBRARIES = ("/usr", "/lib", "/lib64", "/lib32", "/nix/store", "/gnu/store", "/System/Library")
_SYSTEM_FILES = (
    "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/fonts", "/etc/magic", "/proc/self",
    "/proc/cpuinfo", "/proc/meminfo", "/dev/urandom", "/dev/random", "/dev/zero",
)  # fmt: skip
_NOWHERE = "/dev/null"

# linux/landlock.h; the numbers of system calls are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_RIGHTS_BY_VERSION = ((1, 13), (2, 14), (3, 15), (5, 16))
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15

# linux/prctl.h, linux/seccomp.h, linux/audit.h
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 13
_FOREIGN_CALLS = 0x40000000
_IO_URING_SETUP = 425
# socket, execve, execveat, ptrace, process_vm_readv, process_vm_writev
_CALLS = {
    "x86_64": (0xC000003E, (41, 59, 322, 101, 310, 311, _IO_URING_SETUP)),
    "aarch64": (0xC00000B7, (198, 221, 281, 117, 270, 271, _IO_URING_SETUP)),
}


def readable_paths(parser: str) -> list[str]:
    """Return what a worker must read to run: the interpreter's libraries, the system's, this package and its parser's.

    Args:
        parser: the function that reads one file, as ``module:function``.
    """
    found = [os.path.realpath(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [os.path.join(os.path.realpath(prefix), "lib") for prefix in (sys.base_prefix, sys.base_exec_prefix)]
    # A folder of the path may be a project's, with its documents: only what is called a folder of libraries is one.
    found += [
        entry for entry in sys.path if os.path.basename(entry) in {"site-packages", "dist-packages", "lib-dynload"}
    ]
    for package in ("ragspine_assets", parser.partition(":")[0].partition(".")[0]):
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(package)
            if spec is not None:
                found += spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    return list(dict.fromkeys((*map(os.path.realpath, found), *_LIBRARIES, *_SYSTEM_FILES)))


def inherited(environment: dict[str, str]) -> dict[str, str]:
    """Return the part of an environment that a worker inherits."""
    return {name: value for name, value in environment.items() if name in ENVIRONMENT or name.startswith("LC_")}


def confine(readable: Iterable[str], writable: str) -> list[str]:
    """Take from this process, for good, what it does not need; return what was taken, of ``PROMISED``.

    Only the calling thread and those it starts are confined.

    Args:
        readable: files and folders that may be read; those that are missing are passed over.
        writable: the folder that may be written.
    """
    if not sys.platform.startswith("linux"):
        return []
    taken = []
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        return []
    if _landlock(libc, readable, writable):
        taken.append(FILES)
    if _seccomp(libc):
        taken.append(SOCKETS)
    return taken


def _landlock(libc: ctypes.CDLL, readable: Iterable[str], writable: str) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _RULESET_VERSION)
    if version < 1:
        return False
    rights = (1 << max(count for since, count in _RIGHTS_BY_VERSION if since <= version)) - 1
    # Version 4 takes TCP, version 6 signals to and abstract sockets of other processes.
    attributes = struct.pack("=QQQ", rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(libc, ruleset, path, _READ_FILE | _READ_DIR)
        _allow(libc, ruleset, _NOWHERE, (_READ_FILE | _WRITE_FILE | 1 << 14) & rights)
        _allow(libc, ruleset, writable, rights & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK))
        return libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, handle)
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(handle)


def _seccomp(libc: ctypes.CDLL) -> bool:
    known = _CALLS.get(os.uname().machine)
    if known is None:
        return False
    architecture, calls = known
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    # From the first instruction on: another architecture's calls, those of x32, then each call that is refused.
    body = [(equal, 0, len(calls) + 3, architecture), (load, 0, 0, 0), (at_least, len(calls) + 1, 0, _FOREIGN_CALLS)]
    body += [(equal, len(calls) - number, 0, call) for number, call in enumerate(calls)]
    program = [(load, 0, 0, 4), *body, (answer, 0, 0, _ALLOW), (answer, 0, 0, _REFUSE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0) == 0


def main(arguments: Sequence[str]) -> None:
    """Confine this process, then serve as a worker.

    Args:
        arguments: the folder that may be written, how many paths may be read, these paths, and what
            ``ragspine_assets.documents.worker.main`` takes.
    """
    count = int(arguments[1])
    taken = confine(arguments[2 : 2 + count], arguments[0])
    from ragspine_assets.documents.worker import main as serve

    serve(arguments[2 + count :], taken)


if __name__ == "__main__":
    main(sys.argv[1:])
