"""How much history is kept (https://docs.dagster.io/deployment/oss/dagster-yaml, SPEC 6.5).

Belongs here: forgetting runs that are old, which Dagster itself never does. The newest runs stay whole, and so does every
run that an asset's latest materialisation or a check's latest outcome is of: data versions and the state of the service are
read from those. Ticks of schedules and sensors are bounded by ``retention`` in ``dagster.yaml``.
"""

import os
from contextlib import suppress
from pathlib import Path

import sqlalchemy
from dagster import DagsterInstance, RunsFilter
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from ragspine_assets.config import ServiceConfig

from .own_runs import OwnRuns

RUNS_KEPT = ServiceConfig.runs_kept
"""How many runs are kept where nobody says otherwise."""

_AT_MOST = 50
_PAGE = 500


def forget_old_runs(
    instance: DagsterInstance, *, among: OwnRuns | None = None, keep: int = RUNS_KEPT, at_most: int = _AT_MOST
) -> list[str]:
    """Delete the oldest runs with their events and logs until no more than ``keep`` are there.

    Open runs stay, and those that hold the latest of an asset or of a check.

    Args:
        instance: where runs are kept.
        among: whose runs are counted and deleted, if every step of them is theirs; None for all of the instance.
        keep: how many runs stay; 0 for all of them.
        at_most: how many are deleted in one call, which may be part of somebody's run.

    Returns:
        The ids of the runs that were deleted.
    """
    if keep <= 0 or instance.get_runs_count() <= keep:
        return []
    older = instance.get_run_records(limit=_PAGE, ascending=True)
    if among is None:
        surplus, oldest = instance.get_runs_count() - keep, older
    else:
        mine = RunsFilter(tags=among.tags)
        older = [record for record in older if among.untagged(record.dagster_run)]
        surplus = instance.get_runs_count(mine) + len(older) - keep
        oldest = [*older, *instance.get_run_records(mine, limit=_PAGE, ascending=True)]
    if surplus <= 0:
        return []
    kept = _runs_of_the_latest(instance)
    gone = []
    for record in oldest:
        if len(gone) >= min(surplus, at_most):
            break
        run = record.dagster_run
        if run.is_finished and run.run_id not in kept:
            _forget(instance, run.run_id)
            gone.append(run.run_id)
    return gone


def keep_private(folder: str | Path) -> None:
    """Let nobody else on this machine look into a folder of ours, whatever the umask was when it was made."""
    folder = Path(folder)
    if folder.is_dir() and folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)


def make_private(folder: str | Path) -> None:
    """Make a folder that nobody else on this machine may look into, or close one that is there."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_private(folder)


def history_folder() -> Path | None:
    """Return where this process keeps its history: DAGSTER_HOME, else ``.dagster`` beside ``dagster.yaml``; else nowhere."""
    home = os.environ.get("DAGSTER_HOME")
    if home:
        return Path(home)
    return Path(".dagster") if Path("dagster.yaml").is_file() else None


def keep_history_private(instance: DagsterInstance) -> None:
    """Close the folder of a history that another program, such as ``dagster dev``, may have made with its own umask.

    It is closed where our ``dagster.yaml`` put it. Anybody else's instance is theirs to share.
    """
    kept = Path(instance.root_directory)
    # Our dagster.yaml keeps what runs leave in a folder of its own beside the databases.
    if (kept.name, kept.parent.name) == ("artifacts", ".dagster"):
        keep_private(kept.parent)


def _runs_of_the_latest(instance: DagsterInstance) -> set[str]:
    kept = set()
    for record in instance.get_asset_records(instance.get_asset_keys()):
        if record.asset_entry.last_run_id:
            kept.add(record.asset_entry.last_run_id)
        if record.asset_entry.last_materialization:
            kept.add(record.asset_entry.last_materialization.run_id)
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        table = AssetCheckExecutionsTable.c
        latest = sqlalchemy.select(sqlalchemy.func.max(table.id)).group_by(table.asset_key, table.check_name)
        with storage.index_connection() as connection:
            found = connection.execute(sqlalchemy.select(table.run_id).where(table.id.in_(latest)))
            kept |= {run_id for (run_id,) in found.fetchall()}
    return kept


def _forget(instance: DagsterInstance, run_id: str) -> None:
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage = instance.event_log_storage
    # What Dagster's own deletion leaves: outcomes of checks, and the emptied file of the run's events.
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.delete().where(AssetCheckExecutionsTable.c.run_id == run_id))
    if isinstance(storage, SqliteEventLogStorage):
        with suppress(OSError):
            os.unlink(storage.path_for_shard(run_id))
