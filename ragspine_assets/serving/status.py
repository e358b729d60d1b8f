"""What is published, from what, how old, and what waits (SPEC 6.7).

Loads no more than it needs: the answer is there in a fraction of a second, also while somebody writes the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragspine_assets.serving.snapshot_files import Manifest, current_name, read_manifest, snapshot_folders


@dataclass(frozen=True)
class Status:
    """The state of publication.

    Attributes:
        root: folder of the snapshots.
        manifest: of the current snapshot; None where nothing is published.
        age_s: seconds since it was published.
        kept: how many snapshots there are.
        bytes: size of the current one.
        store: what the store says: ``ready``, ``missing``, or why it cannot be asked.
        waiting: servable documents whose chunks are newer than the snapshot; None where the store cannot be asked.
        problems: documents of the source that failed or have no text; None likewise.
    """

    root: str
    manifest: Manifest | None
    age_s: float
    kept: int
    bytes: int
    store: str
    waiting: int | None
    problems: int | None


def publication_status(root: str | Path, store: str | Path) -> Status:
    """Read the state of publication; changes nothing and waits for nobody.

    Args:
        root: folder of the snapshots.
        store: the store file.

    Raises:
        SnapshotError: what is current is damaged.
    """
    root = Path(root)
    name = current_name(root)
    manifest = read_manifest(root / name) if name else None
    published = datetime.fromisoformat(manifest.published_at) if manifest else None
    age = (datetime.now(UTC) - published).total_seconds() if published else 0.0
    state, waiting, problems = _ask_store(Path(store), manifest, published)
    return Status(
        root=str(root),
        manifest=manifest,
        age_s=age,
        kept=len(snapshot_folders(root)),
        bytes=sum(entry.bytes for entry in manifest.files.values()) if manifest else 0,
        store=state,
        waiting=waiting,
        problems=problems,
    )


_WAITING = """
    SELECT count(DISTINCT c.doc_id) FROM narrative_chunk c LEFT JOIN document d USING (doc_id)
    WHERE c.active AND c.ingested_at > $since AND list_contains($labels, c.sensitivity)
        AND coalesce(d.status, '') != 'removed' AND (d.sensitivity IS NULL OR list_contains($labels, d.sensitivity))
"""
# What has no label that may be published is not counted: nobody learns from here how much of it there is.
_PROBLEMS = """
    SELECT count(*) FROM document WHERE status IN ('failed', 'no_text') AND list_contains($labels, sensitivity)
"""
_LABELS = ("PUBLIC", "INTERNAL", "CONFIDENTIAL")


def _ask_store(path: Path, manifest: Manifest | None, published: datetime | None) -> tuple[str, int | None, int | None]:
    if not path.is_file():
        return "missing", None, None
    import duckdb

    from ragspine_assets.store.database import StoreBusyError, StoreError, open_database

    since = (published or datetime.fromtimestamp(0, UTC)).replace(tzinfo=None)
    labels = list(manifest.labels if manifest else _LABELS)
    try:
        # Read only: opened for writing, it would lock out a run that starts now.
        with open_database(path, wait_s=0, read_only=True) as connection:
            waiting = connection.execute(_WAITING, {"since": since, "labels": labels}).fetchall()[0][0]
            problems = connection.execute(_PROBLEMS, {"labels": labels}).fetchall()[0][0]
    except StoreBusyError:
        return "in use by a run", None, None
    except StoreError as error:
        return str(error), None, None
    except duckdb.Error as error:
        return f"cannot be read ({type(error).__name__})", None, None
    return "ready", waiting, problems
