"""Sensors (https://docs.dagster.io/guides/automate/sensors).

Belongs here: starting a run because something changed, and telling somebody that a run failed. Does not belong here:
finding out what changed; the run does that, and does no more than is needed.
"""

import hmac
import secrets
import time
from collections.abc import Mapping

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunFailureSensorContext,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    run_failure_sensor,
    sensor,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from ragspine_assets.config import ServiceConfig
from ragspine_assets.documents.source import SourceError
from ragspine_assets.documents.watching import watch_digest
from ragspine_assets.errors import is_cancel

from .failures import Notifier, explain_failure, load_notifier
from .jobs import selection_config, selection_tags
from .own_runs import OwnRuns
from .runs import close_dead_runs, runs_at_work

DIGEST_TAG = "ragspine/watched"
"""Tag of a run that the sensor launched: the digest it was launched for."""

RETRY_AFTER_S = 600.0
"""How long after a failure the same state is tried again; twice as long after the second."""

MAX_TRIES = 3
"""How often one state is tried."""


def make_sensors(
    config: ServiceConfig, given: Mapping[str, object], refresh: UnresolvedAssetJobDefinition, own: OwnRuns
) -> tuple[SensorDefinition, ...]:
    """Return the sensor on source, profile and facts, and the one on failed runs (SPEC 6.4).

    Args:
        config: what is watched, how often, and the default status.
        given: resources that were handed in, whose selection is not the configuration's.
        refresh: the job that brings everything up to date.
        own: whose runs are asked for, waited for and told about.

    Raises:
        ValueError: the notifier cannot be loaded.
    """
    status = DefaultSensorStatus.RUNNING if config.automation else DefaultSensorStatus.STOPPED

    @sensor(
        job=refresh,
        name=own.naming.name("source_changed"),
        minimum_interval_seconds=config.watch_interval_s,
        default_status=status,
        description=(
            "Starts a refresh when a file of the source, metadata.csv, the profile or the facts was added, removed, "
            "renamed or changed. A run that failed is tried again after ten and after twenty minutes; then only after "
            "the next change, or when the cursor is reset."
        ),
    )
    def source_changed(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        return look_for_changes(context, config, given, own)

    return source_changed, make_failure_sensor(load_notifier(config.notifier), status, own)


def look_for_changes(
    context: SensorEvaluationContext, config: ServiceConfig, given: Mapping[str, object], own: OwnRuns
) -> SensorResult | SkipReason:
    """Ask for a refresh when what a run reads is no longer what it was at the last one.

    The cursor is one digest of what is watched. The run key is that digest and the time of the tick, since Dagster never
    launches a key twice: a state that comes back is a change like any other.
    """
    try:
        watched = watch_digest(config.source, profile=config.profile, facts=config.facts)
    except SourceError as error:
        return SkipReason(f"Nothing can be watched: {error}.")
    digest = keyed_digest(context.instance, watched)
    close_dead_runs(context.instance, among=own, patience_s=config.starting_s)
    again = ""
    if digest == context.cursor:
        again, why_not = _worth_another_try(context, digest, own)
        if not again:
            return SkipReason(why_not)
    for run in runs_at_work(context.instance, among=own):
        if run.job != own.naming.name("checks"):
            return SkipReason(f"Run {run.run_id[:8]} ({run.job}) is at work; what changed is looked at after it.")
    request = RunRequest(
        run_key=f"{digest}-{time.time_ns()}",
        run_config=selection_config(config, given, own.naming),
        tags={**selection_tags(config), **own.tags, DIGEST_TAG: digest, **({"ragspine/again": again} if again else {})},
    )
    return SensorResult(run_requests=[request], cursor=digest)


_KEY = "ragspine: key of what is watched"


def keyed_digest(instance: DagsterInstance, digest: str) -> str:
    """Return a digest that may be shown: names of RESTRICTED files are in it, and cursors and tags are read by anybody.

    Its key lies in the history's own database. The store's key is out of reach here: a run may hold the store.
    """
    key = instance.run_storage.get_cursor_values({_KEY}).get(_KEY)
    if key is None:
        key = secrets.token_hex(32)
        instance.run_storage.set_cursor_values({_KEY: key})
    return hmac.new(bytes.fromhex(key), digest.encode(), "sha256").hexdigest()


def _worth_another_try(context: SensorEvaluationContext, digest: str, own: OwnRuns) -> tuple[str, str]:
    """Return which try it would be, or ``''`` and why not: nothing changed since the last run was asked for."""
    unchanged = "Source, profile and facts are as they were."
    records = context.instance.get_run_records(RunsFilter(tags={DIGEST_TAG: digest, **own.tags}), limit=MAX_TRIES)
    if not records or records[0].dagster_run.status is not DagsterRunStatus.FAILURE:
        return "", unchanged
    failed = 0
    for record in records:
        if record.dagster_run.status is not DagsterRunStatus.FAILURE:
            break
        failed += 1
    run_id = records[0].dagster_run.run_id[:8]
    if failed >= MAX_TRIES:
        return "", f"{unchanged} The last {failed} runs of them failed; repair what run {run_id} says, then run again."
    due = (records[0].end_time or records[0].update_timestamp.timestamp()) + RETRY_AFTER_S * failed
    left = due - time.time()
    if left > 0:
        return "", f"{unchanged} Run {run_id} of them failed; it is tried again in {left / 60:.0f} min."
    return f"try {failed + 1}", ""


def make_failure_sensor(notifier: Notifier | None, status: DefaultSensorStatus, own: OwnRuns) -> SensorDefinition:
    """Return the sensor that says in one line what failed and what to do, and hands the line to a notifier."""

    @run_failure_sensor(
        name=own.naming.name("run_failed"),
        default_status=status,
        minimum_interval_seconds=30,
        description="Says in one line what failed and what to do, and tells the notifier of RAGSPINE_NOTIFIER.",
    )
    def run_failed(context: RunFailureSensorContext) -> None:
        if not own.has(context.dagster_run):
            return
        failed = explain_failure(context.instance, context.dagster_run)
        context.log.error(failed.line)
        if notifier is None:
            return
        try:
            notifier(failed)
        except BaseException as error:  # a broken notifier must not stop the next notice
            if is_cancel(error):
                raise
            context.log.error("The notifier raised %s; the failure above was not told.", type(error).__name__)

    return run_failed
