"""The published snapshot: what applications read (SPEC 6.6)."""

from ragspine_assets.serving.layout import SnapshotError
from ragspine_assets.serving.publish import PublishingRefused, PublishReport, publish_snapshot
from ragspine_assets.serving.snapshot import Snapshot

__all__ = ["PublishReport", "PublishingRefused", "Snapshot", "SnapshotError", "publish_snapshot"]
