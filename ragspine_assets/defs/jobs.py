"""Jobs (https://docs.dagster.io/guides/build/jobs).

`refresh` materialises everything and runs every check; `checks` runs every check on what is stored, and is what CI runs.
Steps run in one process: the store has one lock, and starting a process per step costs more than the work.
"""

from dagster import AssetSelection, define_asset_job, in_process_executor

refresh = define_asset_job(
    "refresh",
    selection=AssetSelection.all(),
    executor_def=in_process_executor,
    description="Bring everything up to date with the source folder, profile and facts, and prove the promises.",
)

checks = define_asset_job(
    "checks",
    selection=AssetSelection.all_asset_checks(),
    executor_def=in_process_executor,
    description="Prove every promise on what is stored, changing nothing. Fails when one is broken: this is for CI.",
)

ALL_JOBS = (refresh, checks)
