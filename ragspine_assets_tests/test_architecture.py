"""The page for newcomers is true: every path it names is there."""

import re
from pathlib import Path

import pytest

import ragspine_assets

ROOT = Path(ragspine_assets.__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
PATHS = sorted(set(re.findall(r"`([\w./]+(?:\.py|\.toml|/))`", PAGE.read_text("utf-8"))))


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "ragspine_assets" / path).exists()


def test_every_room_is_named() -> None:
    rooms = {folder.name for folder in (ROOT / "ragspine_assets").iterdir() if (folder / "__init__.py").is_file()}
    text = PAGE.read_text("utf-8")
    assert {room for room in rooms if room not in text} <= {"llm"}
