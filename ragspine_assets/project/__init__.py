"""A folder to start from, outside of a checkout (SPEC 6.5): what `ragspine init` writes.

Belongs here: the files of the folder, in `template`, laid out as the defaults of `ServiceConfig` expect them, so that a run
in it needs no setting.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ragspine_assets.errors import SettingError

_DOTTED = {"gitignore": ".gitignore"}


def make_project(folder: str | Path) -> list[str]:
    """Write the files of a new project.

    Args:
        folder: where to; made if it is missing, and taken as it is if it holds none of the files.

    Returns:
        The files, as paths below the folder, sorted.

    Raises:
        ValueError: a file is there already, or the folder cannot be written; nothing was written over.
    """
    folder = Path(folder)
    contents = dict(_contents(files("ragspine_assets.project") / "template", ""))
    there = sorted(name for name in contents if (folder / name).exists() or (folder / name).is_symlink())
    if there:
        raise SettingError(f"{folder} has {', '.join(there)} already. Name another folder, or move these away.")
    try:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)
        # The store will lie here, and nobody else on this machine may look at it.
        (folder / "data").chmod(0o700)
    except OSError as error:
        raise SettingError(f"{folder} cannot be written ({error.strerror}). Name another folder.") from None
    return sorted(contents)


def _contents(folder: Traversable, below: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        name = below + _DOTTED.get(entry.name, entry.name)
        found += _contents(entry, f"{name}/") if entry.is_dir() else [(name, entry.read_bytes())]
    return found
