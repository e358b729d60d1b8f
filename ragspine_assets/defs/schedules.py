"""Schedules (https://docs.dagster.io/guides/automate/schedules).

Belongs here: when jobs start by the clock. Does not belong here: what they do, and starting them because something changed
(see `sensors`). The minutes of the two crons differ, so that the hourly proof does not wait for the daily run.
"""

from collections.abc import Mapping
from zoneinfo import ZoneInfo, available_timezones

from dagster import (
    DefaultScheduleStatus,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ragspine_assets.config import SETTINGS, ServiceConfig

from .jobs import selection_config, selection_tags
from .own_runs import OwnRuns
from .runs import close_dead_runs, runs_at_work


def make_schedules(
    config: ServiceConfig,
    given: Mapping[str, object],
    refresh: UnresolvedAssetJobDefinition,
    checks: UnresolvedAssetJobDefinition,
    own: OwnRuns,
) -> tuple[ScheduleDefinition, ...]:
    """Return the daily refresh and the hourly proof (SPEC 6.4).

    Args:
        config: cron, time zone and default status.
        given: resources that were handed in, whose selection is not the configuration's.
        refresh: the job that brings everything up to date.
        checks: the job that proves the promises.
        own: whose runs they make.

    Raises:
        ValueError: a cron or the time zone is none; the message names the setting.
    """
    zone = zone_of(config.timezone)
    naming, tags = own.naming, {**selection_tags(config), **own.tags}
    status = DefaultScheduleStatus.RUNNING if config.automation else DefaultScheduleStatus.STOPPED

    @schedule(
        job=refresh,
        name=naming.name("refresh_daily"),
        cron_schedule=cron_of("refresh_cron", config.refresh_cron),
        execution_timezone=zone,
        default_status=status,
        description="Bring everything up to date and prove the promises, also when no sensor saw a change.",
    )
    def refresh_daily(context: ScheduleEvaluationContext) -> RunRequest:
        close_dead_runs(context.instance, among=own, patience_s=config.starting_s)
        return RunRequest(run_config=selection_config(config, given, naming), tags=tags)

    @schedule(
        job=checks,
        name=naming.name("checks_hourly"),
        cron_schedule=cron_of("checks_cron", config.checks_cron),
        execution_timezone=zone,
        default_status=status,
        description="Prove every promise on what is stored and published, changing nothing.",
    )
    def checks_hourly(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        close_dead_runs(context.instance, among=own, patience_s=config.starting_s)
        for run in runs_at_work(context.instance, among=own):
            return SkipReason(f"Run {run.run_id[:8]} ({run.job}) is at work and runs the checks itself.")
        return RunRequest(tags=tags)

    return refresh_daily, checks_hourly


def cron_of(setting: str, value: str) -> str:
    """Return a cron expression, or raise a ValueError that names the setting."""
    from dagster._utils.schedules import is_valid_cron_schedule

    if not is_valid_cron_schedule(value):
        raise SETTINGS[setting].wrong(value)
    return value


def zone_of(value: str) -> str:
    """Return the name of a time zone, or raise a ValueError that names the setting."""
    try:
        return ZoneInfo(value).key
    except (KeyError, ValueError, OSError):
        raise SETTINGS["timezone"].wrong(value, near=available_timezones()) from None
