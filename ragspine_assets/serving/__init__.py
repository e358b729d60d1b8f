"""The published snapshot: what applications read (SPEC 6.6).

The names are loaded when they are used: a command line that only reads a manifest need not wait for Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragspine_assets.serving.publish import PublishingRefused, PublishReport, publish_snapshot
    from ragspine_assets.serving.snapshot import Snapshot
    from ragspine_assets.serving.snapshot_files import SnapshotError

_HOME = {
    "PublishReport": "publish",
    "PublishingRefused": "publish",
    "Snapshot": "snapshot",
    "SnapshotError": "snapshot_files",
    "publish_snapshot": "publish",
}

__all__ = ["PublishReport", "PublishingRefused", "Snapshot", "SnapshotError", "publish_snapshot"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"ragspine_assets.serving.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
