"""Parsers run in a world of their own: their own folder, no key, no other file, no socket."""

import json
import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from ragspine_assets.documents import confinement, pool
from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.pool import ExtractionPool, batch_files
from ragspine_assets.documents.source import scan_source

NOSY = "ragspine_assets_tests.documents.nosy_parser:curious"
LIMITS = ExtractionLimits(time_limit_s=60)


def landlock_is_here() -> bool:
    return confinement.ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) >= 1


needs_a_kernel = pytest.mark.skipif(not landlock_is_here(), reason="this kernel has no Landlock")


def look_around(root: Path, elsewhere: Path) -> tuple[dict[str, object], list[str]]:
    """Let a nosy parser read one file of two; return what it says, and what the pool says it was not kept from."""
    root.mkdir()
    secret = elsewhere / "secret.txt"
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (root / "b.txt").write_text("another document")
        wanted = {
            "read": [str(secret), str(root / "b.txt"), str(root / "a.txt"), "/etc/passwd"],
            "folder": str(elsewhere), "port": listener.getsockname()[1],
        }  # fmt: skip
        (root / "a.txt").write_text(json.dumps(wanted))
        files = [file for file in scan_source(root).files if file.doc_id == "a.txt"]
        with ExtractionPool(root, LIMITS, workers=1, parser=NOSY) as workers:
            (row,) = [row for batch in workers.run(batch_files(files)) for row in batch.to_pylist()]
            missing = workers.unconfined()
    return json.loads(row["text"]), missing


@needs_a_kernel
def test_a_worker_reads_the_file_in_hand_and_writes_its_own_folder_and_can_do_nothing_else(tmp_path: Path) -> None:
    told, missing = look_around(tmp_path / "source", tmp_path)
    assert told["could"] == ["own folder"]
    assert missing == []
    assert not (tmp_path / "planted").exists()


def test_where_the_kernel_takes_nothing_the_same_parser_reads_everything_and_the_pool_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unconfined.py").write_text(
        f"import runpy\nprogram = runpy.run_path({confinement.__file__!r})\n"
        "program['main'].__globals__['confine'] = lambda readable, writable: []\n"
        "import sys\nprogram['main'](sys.argv[1:])\n"
    )
    monkeypatch.setattr(confinement, "__file__", str(tmp_path / "unconfined.py"))
    told, missing = look_around(tmp_path / "source", tmp_path)
    assert {"list", "write", "connect", "program", "read /etc/passwd"} <= set(told["could"])  # pyright: ignore[reportArgumentType]
    assert missing == ["files", "sockets"]


def test_a_worker_inherits_no_key_and_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = (
        "OPENAI_API_KEY",
        "RAGSPINE_LLM_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DATABASE_URL",
        "HTTPS_PROXY",
        "LD_PRELOADED",
    )
    for name in secrets:
        monkeypatch.setenv(name, "sk-not-for-parsers")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    told, _ = look_around(tmp_path / "source", tmp_path)
    environment = told["environment"]
    assert isinstance(environment, dict)
    assert "sk-not-for-parsers" not in environment.values()
    assert environment["LC_ALL"] == "C.UTF-8"


def test_the_temporary_folder_of_workers_is_theirs_alone_and_gone_afterwards(tmp_path: Path) -> None:
    told, _ = look_around(tmp_path / "source", tmp_path)
    folder, mode = told["temporary"]  # pyright: ignore[reportGeneralTypeIssues]
    assert os.path.dirname(os.path.dirname(folder)) == tempfile.gettempdir()
    assert mode == "0o40700"
    assert not Path(folder).parent.exists()


def test_a_library_that_somebody_put_into_the_shared_temporary_folder_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    (shared / "kreuzberg-pdfium").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    told, _ = look_around(tmp_path / "source", tmp_path)
    assert "kreuzberg-pdfium" not in str(told["temporary"])
    assert str(told["temporary"]).count(str(shared)) == 1  # below it, in a folder of its own


def test_folders_of_killed_processes_are_removed_and_those_of_others_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    at_work = pool._PrivateFolder()
    for name in ("killed", "young"):
        (tmp_path / f"ragspine-workers-{name}").mkdir()
    long_ago = time.time() - 3600
    for path in tmp_path.iterdir():
        if not path.name.endswith("young"):
            os.utime(path, (long_ago, long_ago))
    (tmp_path / "ragspine-workers-link").symlink_to(tmp_path.parent)
    pool._PrivateFolder().close()
    assert not (tmp_path / "ragspine-workers-killed").exists()
    assert (tmp_path / "ragspine-workers-young").exists()
    assert Path(at_work.path).exists()
    at_work.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ragspine-workers-link", "ragspine-workers-young"]


def test_a_project_folder_on_the_path_of_modules_is_not_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    readable = confinement.readable_paths("ragspine_assets.documents.extraction:extract_bytes")
    assert str(tmp_path) not in readable
    root = Path(confinement.__file__).parents[2]
    assert str(root) not in readable
    assert not any((root / "data").is_relative_to(path) for path in readable)
