"""Starting a job from a terminal or from CI, without a server (SPEC 6.4, 6.5).

Belongs here: running one of the jobs in this process, with its history kept where the UI finds it, and saying in plain
words what happened and what to do next.
"""

import argparse
import fcntl
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from alembic.util.exc import CommandError
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    DagsterInstance,
    ExecuteInProcessResult,
    JobDefinition,
    TableMetadataValue,
)
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import CodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.utils import make_new_run_id
from dagster._core.workspace.load import location_origin_from_module_name, location_origins_from_yaml_paths
from sqlalchemy.exc import SQLAlchemyError

from ragspine_assets.config import DEFAULT_SOURCE, DEFAULT_STORE, ServiceConfig, environment_name

from .build import build_defs
from .failures import explain_failure
from .history import history_folder, make_private
from .jobs import selection_config, selection_tags
from .model_metadata import model_line
from .own_runs import OwnRuns
from .process import settle
from .progress import shown_progress
from .reports import verdicts, write_junit, write_summary
from .run_process import PROCESS_TAG, own_identity
from .runs import close_dead_runs
from .tables import NOTHING

REPORTS = "build"
"""Folder of the reports for CI, below the working folder."""

_DEFINITIONS = "ragspine_assets.definitions"
_LOGGERS = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_MOST_PRINTED = 20
_OUTCOMES = ("new", "changed", "unchanged", "removed", "failed", "no_text")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job and return the exit code: 0 when it succeeded, 1 when it failed, 2 when a setting is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ragspine_assets.defs.launch", description=main.__doc__)
    parser.add_argument("job", choices=["refresh", "checks"])
    parser.add_argument("--junit", metavar="PATH", help="JUnit XML of what was found; for checks build/checks.xml")
    parser.add_argument("--summary", metavar="PATH", help="the same as Markdown; for checks build/checks.md")
    given = parser.parse_args(arguments)
    job = given.job
    settle()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        config = ServiceConfig.from_environment()
        job_def = build_defs(config).resolve_job_def(job)
    except ValueError as error:
        print(f"A setting is wrong: {error}", file=sys.stderr)
        return 2
    settle()
    if job == "refresh" and config.source == DEFAULT_SOURCE and not Path(config.source).is_dir():
        print(
            f"There is no folder {config.source} here, which is the source where none is named. Name yours with "
            f"{environment_name('source')}, or make a project to start from with `ragspine init FOLDER`.",
            file=sys.stderr,
        )
        return 2
    if job == "checks" and not Path(config.store).is_file():
        print(f"There is no store at {config.store}, so nothing can be proved. `make run` makes one.", file=sys.stderr)
        return 1
    _keep_private(config)
    try:
        return _run(config, job_def, given)
    except (SQLAlchemyError, CommandError) as error:
        # Of such an error only the cause is told: its message has the statement and what it would have written.
        cause = getattr(error, "orig", None) or type(error).__name__
        print(
            f"The history of runs in .dagster cannot be read or written: {cause}. If the disk is full, make room and run "
            "again; the store is not at fault. See docs/when-something-is-stuck.md.",
            file=sys.stderr,
        )
        return 1


def _run(config: ServiceConfig, job_def: JobDefinition, given: argparse.Namespace) -> int:
    try:
        opened = open_instance()
    except OSError as error:
        print(
            f"The history of runs cannot be opened: {error}. Give this user write permission, or name another folder with "
            "DAGSTER_HOME; the store is not touched.",
            file=sys.stderr,
        )
        return 1
    with opened as instance:
        for run_id in close_dead_runs(instance, among=OwnRuns(config.store), patience_s=config.starting_s):
            print(f"Run {run_id[:8]} was left open by a process that is gone; it is marked as failed now.")
        run_id = make_new_run_id()
        _let_the_ui_find_the_job(instance, given.job)
        with shown_progress(instance, run_id, len(job_def.graph.node_dict)):
            result = job_def.execute_in_process(
                instance=instance,
                run_config={**_LOGGERS, **(selection_config(config, {}) if given.job == "refresh" else {})},
                tags={PROCESS_TAG: own_identity().tag(run_id), **selection_tags(config)},
                raise_on_error=False,
                run_id=run_id,
            )
        _report(result, config, given.job, instance)
        write_reports(result, given.job, given.junit, given.summary)
        return 0 if result.success else 1


def write_reports(
    result: ExecuteInProcessResult, job: str, junit: str | None = None, summary: str | None = None
) -> None:
    """Write what a run found to files; for checks into the folder `REPORTS` where no other place is named."""
    if job == "checks":
        junit = f"{REPORTS}/checks.xml" if junit is None else junit
        summary = f"{REPORTS}/checks.md" if summary is None else summary
    found = verdicts(result)
    try:
        if any(path and Path(path).parent.resolve() == Path(REPORTS).resolve() for path in (junit, summary)):
            make_private(REPORTS)
        if junit:
            write_junit(found, junit)
        if summary:
            write_summary(found, summary, job=job)
    except OSError as error:
        print(f"A report cannot be written: {error}. Name another place with --junit and --summary.", file=sys.stderr)


def open_instance() -> DagsterInstance:
    """Open the instance that ``dagster dev`` in this folder uses: DAGSTER_HOME, else ``dagster.yaml`` here.

    One process at a time does this: two that create Dagster's tables at once leave a history that nobody can open.
    """
    folder = history_folder()
    if folder is None:
        return DagsterInstance.ephemeral()
    make_private(folder)
    descriptor = os.open(folder / ".opening", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else DagsterInstance.from_config(os.getcwd())
    finally:
        os.close(descriptor)


def _let_the_ui_find_the_job(instance: DagsterInstance, job: str) -> None:
    """See that the next run of this instance says which code location it is of, so that the UI can launch it again.

    Dagster's own way of running a job in a process leaves it out, and offers no argument for it.
    """
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(_code_location(), SINGLETON_REPOSITORY_NAME), job)
    create = instance.create_run_for_job
    instance.create_run_for_job = partial(create, remote_job_origin=origin)  # pyright: ignore[reportAttributeAccessIssue]


def _code_location() -> CodeLocationOrigin:
    """Return the code location that ``workspace.yaml`` of this folder gives our definitions, else the one it would."""
    if Path("workspace.yaml").is_file():
        for origin in location_origins_from_yaml_paths(["workspace.yaml"]):
            target = getattr(origin, "loadable_target_origin", None)
            if target is not None and target.module_name == _DEFINITIONS:
                return origin
    return location_origin_from_module_name(
        _DEFINITIONS, None, os.getcwd(), location_name=_DEFINITIONS.partition(".")[0]
    )


def _keep_private(config: ServiceConfig) -> None:
    """The default store shares ``data`` with its source: nobody else on this machine may look into it."""
    folder = Path(config.store).parent
    if config.store == DEFAULT_STORE and folder.is_dir() and folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)


def _report(result: ExecuteInProcessResult, config: ServiceConfig, job: str, instance: DagsterInstance) -> None:
    broken = [e for e in result.get_asset_check_evaluations() if not e.passed]
    if job == "refresh":
        _say(result, "raw_documents", "Documents", [f"{n} {{documents {n}}}" for n in _OUTCOMES])
        _say(result, "raw_documents", "Labels", ["{labels raised} raised", "{labels lowered} lowered"])
        _print_problems(result)
        _say(
            result,
            "chunks",
            "Chunks",
            ["{dagster/row_count}", "cut from {documents new} new and {documents changed} changed documents"],
        )
        _say(
            result,
            "chunk_store",
            "Store",
            ["{chunks written} chunks written", "{documents new} first and {documents changed} further versions"],
        )
        _say(
            result,
            "relation_graph",
            "Graph",
            ["{nodes} nodes", "{dagster/row_count} edges", "{evidence} pieces of evidence"],
        )
        _say_of_the_model(result)
        _say(
            result,
            "serving_snapshot",
            "Snapshot",
            ["{dagster/row_count} chunks of {documents} documents up to {highest label}", "in {snapshot}"],
        )
    print(f"Checks     {len(result.get_asset_check_evaluations()) - len(broken)} hold, {len(broken)} are broken")
    for evaluation in result.get_asset_check_evaluations():
        if not evaluation.passed:
            print(
                f"  BROKEN {evaluation.asset_key.to_user_string()}: {evaluation.check_name}. {evaluation.description}"
            )
        elif evaluation.severity.value == "WARN":
            print(f"  look at {evaluation.check_name}: {evaluation.description}")
            for line in _warnings(evaluation):
                print(f"    - {line}")
    if not result.success:
        for reason in explain_failure(instance, result.dagster_run).reasons:
            if not reason.startswith("the promise "):
                print(f"  FAILED {reason}")
    if result.success and job == "refresh":
        if _wrote_nothing(result):
            print("\nNothing had changed: no version, node or edge was written.")
        print(f"\nEverything is in {config.store}. {_next_step(config)}")
    elif result.success:
        print("\nEvery promise holds.")
    else:
        print("\nThe run failed. `make ui` shows it step by step; docs/when-something-is-stuck.md says what to do.")


def _say_of_the_model(result: ExecuteInProcessResult) -> None:
    for event in result.get_asset_materialization_events():
        if event.asset_key == AssetKey("relation_graph") and event.materialization is not None:
            line = model_line({key: value.value for key, value in event.materialization.metadata.items()})
            if line:
                print(f"Model      {line}")


def _warnings(evaluation: AssetCheckEvaluation) -> list[str]:
    shown = evaluation.metadata.get("to look at")
    records = shown.records if isinstance(shown, TableMetadataValue) else []
    return [str(value) for record in records for value in record.data.values()]


def _print_problems(result: ExecuteInProcessResult) -> None:
    """Print what somebody should look at about labels, rows and files, and what to do (SPEC 1.8)."""
    for event in result.get_asset_materialization_events():
        if event.asset_key != AssetKey("raw_documents") or event.materialization is None:
            continue
        shown = event.materialization.metadata.get("to look at")
        records = shown.records if isinstance(shown, TableMetadataValue) else []
        said = [str(value) for record in records for value in record.data.values() if value != NOTHING]
        for line in said[:_MOST_PRINTED]:
            print(f"  look at {line}")
        if len(said) > _MOST_PRINTED:
            print(f"  look at {len(said) - _MOST_PRINTED} more: `ragspine labels` lists them")


def _wrote_nothing(result: ExecuteInProcessResult) -> bool:
    told = {"chunks written", "written", "labels raised", "labels lowered"}
    written: dict[str, object] = {}
    for event in result.get_asset_materialization_events():
        if event.materialization is not None:
            written |= {key: value.value for key, value in event.materialization.metadata.items() if key in told}
    return bool(written) and not any(written.values())


def _next_step(config: ServiceConfig) -> str:
    if config.source == DEFAULT_SOURCE:
        return "Next: `make ui` to look at it; `make run SOURCE=/your/folder` for your own files."
    given = f"SOURCE={config.source} STORE={config.store}"
    given += f" PROFILE={config.profile}" if config.profile else ""
    given += f" FACTS={config.facts}" if config.facts else ""
    return f"Next: `make ui {given}` to look at it."


def _say(result: ExecuteInProcessResult, asset: str, title: str, parts: Sequence[str]) -> None:
    """Print one line made from an asset's metadata; nothing if it was not materialised."""
    for event in result.get_asset_materialization_events():
        if event.asset_key != AssetKey(asset) or event.materialization is None:
            continue
        metadata = {key: value.value for key, value in event.materialization.metadata.items()}
        line = ", ".join(parts)
        for key, value in metadata.items():
            line = line.replace("{" + key + "}", f"{value:,}" if isinstance(value, int) else str(value))
        print(f"{title:<10} {line}")


if __name__ == "__main__":
    sys.exit(main())
