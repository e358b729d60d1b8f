"""The indexes of a release (SPEC 6.6)."""

from __future__ import annotations

from typing import Any

from ragspine_assets.index.lexical import LexicalIndex
from ragspine_assets.index.snapshot_index import SnapshotIndex

INDEXES: tuple[type[SnapshotIndex[Any]], ...] = (LexicalIndex,)
"""Every index that is built, opened and proved, in this order."""
