"""Copies of the store by the clock (SPEC 3.6, 6.4); off until ``RAGSPINE_BACKUP_CRON`` says when.

Belongs here: the job that makes a copy, and its schedule. How a copy is made and proved is `pipeline.backup`.
"""

from dagster import (
    DefaultScheduleStatus,
    JobDefinition,
    OpExecutionContext,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    in_process_executor,
    job,
    op,
    schedule,
)

from ragspine_assets.config import ServiceConfig
from ragspine_assets.pipeline.backup import back_up

from .boundary import step_boundary
from .jobs import selection_tags
from .own_runs import OwnRuns
from .runs import close_dead_runs
from .schedules import cron_of, zone_of


def make_backup(config: ServiceConfig, own: OwnRuns) -> tuple[JobDefinition, tuple[ScheduleDefinition, ...]]:
    """Return the job `backup`, and its schedule where a time is set.

    Args:
        config: when, where to, and how many copies are kept.
        own: whose runs they make.

    Raises:
        ValueError: the cron or the time zone is none; the message names the setting.
    """
    naming, tags = own.naming, {**selection_tags(config), **own.tags}

    @op(
        name=naming.name("copy_store"),
        required_resource_keys={naming.name("store")},
        description="Copy the store under its lock and prove that every row of the copy reads back.",
    )
    @step_boundary("backup")
    def copy_store(context: OpExecutionContext) -> None:
        store = getattr(context.resources, naming.name("store"))
        made = back_up(store.path, config.copies, keep=config.copies_keep, wait_s=store.wait_s)
        context.add_output_metadata(
            {"copy": str(made.path), "bytes": made.bytes, "rows": made.rows, "documents": made.documents}
        )

    @job(
        name=naming.name("backup"),
        executor_def=in_process_executor,
        tags=tags,
        description="Copy the store, RESTRICTED text included, to a folder that only this user may read.",
    )
    def backup() -> None:
        copy_store()

    if not config.backup_cron:
        return backup, ()

    @schedule(
        job=backup,
        name=naming.name("backup_by_clock"),
        cron_schedule=cron_of("backup_cron", config.backup_cron),
        execution_timezone=zone_of(config.timezone),
        default_status=DefaultScheduleStatus.RUNNING,
        description="Copy the store when RAGSPINE_BACKUP_CRON says so.",
    )
    def backup_by_clock(context: ScheduleEvaluationContext) -> RunRequest:
        close_dead_runs(context.instance, among=own, patience_s=config.starting_s)
        return RunRequest(tags=tags)

    return backup, (backup_by_clock,)
