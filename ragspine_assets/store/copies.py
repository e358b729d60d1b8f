"""Where copies of a store lie and how they are called (SPEC 3.6).

Belongs here: names and places only, so that an error about a damaged store can name the last good copy. Making and
restoring copies is `pipeline.backup`.
"""

from __future__ import annotations

from pathlib import Path

_STAMP = "[0-9]" * 8 + "T" + "[0-9]" * 6 + "*Z"


def copies_folder(store: str | Path) -> Path:
    """Return the folder of a store's copies, where nobody names another: beside it and called after it."""
    store = Path(store)
    return store.with_name(f"{store.stem}.copies")


def copies_in(folder: str | Path, store: str | Path) -> list[Path]:
    """Return the copies of a store in a folder, the newest first: their names hold the time in UTC."""
    return sorted(Path(folder).glob(f"{Path(store).stem}-{_STAMP}.duckdb"), reverse=True)


def replaced_beside(store: str | Path) -> list[Path]:
    """Return the files that a restored copy took the place of, the newest first."""
    store = Path(store)
    return sorted(store.parent.glob(f"{store.stem}.replaced-{_STAMP}.duckdb"), reverse=True)
