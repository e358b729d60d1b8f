"""The wheel alone is enough to start: two commands, in a folder that knows of no checkout (SPEC 6.5)."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ragspine_assets.errors import SettingError
from ragspine_assets.project import make_project
from ragspine_assets.serving import Snapshot

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "ragspine_assets" / "project" / "template"


def test_a_new_project_holds_what_a_run_needs_and_overwrites_nothing(tmp_path: Path) -> None:
    made = make_project(tmp_path / "new")
    assert {"dagster.yaml", "workspace.yaml", ".gitignore", "data/profile.toml", "data/raw/metadata.csv"} <= set(made)
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new" / "data" / "profile.toml").write_text("# mine")
    with pytest.raises(SettingError, match=r"has \.gitignore.*data/profile\.toml.* already"):
        make_project(tmp_path / "new")
    assert (tmp_path / "new" / "data" / "profile.toml").read_text() == "# mine"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    make_project(tmp_path / "other")


def test_make_takes_the_same_variables_in_a_project_as_in_a_checkout() -> None:
    exported = [
        [line for line in (folder / "Makefile").read_text().splitlines() if line.startswith("export RAGSPINE_")]
        for folder in (ROOT, TEMPLATE)
    ]
    assert exported[0] == exported[1] != []


def test_a_folder_that_is_no_project_is_told_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragspine_assets.cli", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "`ragspine init FOLDER`" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_built_wheel_makes_a_project_and_runs_it(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, timeout=300, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert "ragspine_assets/py.typed" in names
    (info,) = (tmp_path / "site").glob("*.dist-info")
    metadata = (info / "METADATA").read_text()
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"):
        assert line in metadata
    assert (info / "licenses" / "LICENSE").is_file()
    assert "ragspine_assets.component" in (info / "entry_points.txt").read_text()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}

    def ragspine(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ragspine_assets.cli", *arguments]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    assert ragspine("init", "corpus", cwd=tmp_path).returncode == 0
    done = ragspine("run", cwd=tmp_path / "corpus")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 are broken" in done.stdout
    snapshot = Snapshot.open(tmp_path / "corpus" / "data" / "snapshots")
    assert snapshot.chunk("welcome.md#c0")
    assert snapshot.manifest.counts["documents"] == 1
    (tmp_path / "corpus" / "data" / "profile.toml").unlink()
    failed = ragspine("run", cwd=tmp_path / "corpus")
    assert failed.returncode == 1
    assert "profile.toml" in failed.stdout + failed.stderr
    assert "Traceback" not in failed.stdout + failed.stderr
