"""The history stays small, and what it says of the assets stays readable (SPEC 6.5)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.defs import launch, ui
from ragspine_assets.defs.history import forget_old_runs, keep_private
from ragspine_assets.defs.runs import close_dead_runs

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as made:
        yield made


@dg.asset
def rare() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(data_version=dg.DataVersion("of the first run"))


@dg.asset(check_specs=[dg.AssetCheckSpec("holds", asset="often")])
def often() -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    yield dg.MaterializeResult()
    yield dg.AssetCheckResult(passed=True, check_name="holds")


def run(instance: dg.DagsterInstance, asset: dg.AssetsDefinition) -> str:
    return dg.materialize([asset], instance=instance).run_id


def files(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*.db") if path.stem.count("-") == 4}


def test_old_runs_go_and_the_latest_of_every_asset_and_check_stays(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    first = run(instance, rare)
    others = [run(instance, often) for _ in range(4)]
    gone = forget_old_runs(instance, keep=2)
    assert gone == others[:3]
    assert {record.run_id for record in instance.get_runs()} == {first, others[3]}
    assert files(tmp_path / "home") == {f"{first}.db", f"{others[3]}.db"}
    event = instance.get_latest_materialization_event(dg.AssetKey("rare"))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.tags
    assert event.asset_materialization.tags["dagster/data_version"] == "of the first run"
    key = dg.AssetCheckKey(dg.AssetKey("often"), "holds")
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert latest.run_id == others[3]
    assert not list((tmp_path / "home" / "storage").glob(f"{gone[0]}*"))


def test_dagsters_own_deletion_alone_leaves_the_file_of_a_runs_events(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    gone = run(instance, rare)
    instance.delete_run(gone)
    assert f"{gone}.db" in files(tmp_path / "home")


@pytest.mark.parametrize("keep", [0, 3])
def test_nothing_goes_where_all_are_to_be_kept(instance: dg.DagsterInstance, keep: int) -> None:
    for _ in range(2):
        run(instance, often)
    assert forget_old_runs(instance, keep=keep) == []


def test_an_open_run_stays(instance: dg.DagsterInstance) -> None:
    job = dg.define_asset_job("a_job", [often]).resolve(asset_graph=dg.Definitions([often]).resolve_asset_graph())
    open_run = instance.create_run_for_job(job)
    ended = [run(instance, often) for _ in range(2)]
    assert forget_old_runs(instance, keep=1) == ended[:1]
    assert instance.has_run(open_run.run_id)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def wide_mask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("wide_mask")
def test_every_door_closes_the_folders_of_history_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    shutil.copy(PROJECT / "dagster.yaml", tmp_path)
    history, reports = tmp_path / ".dagster", tmp_path / "build"
    with launch.open_instance() as instance:
        assert mode(history) == 0o700
        # As another program would leave it: what looks at runs, in the sensor and in each run, closes it again.
        history.chmod(0o777)
        close_dead_runs(instance)
        assert mode(history) == 0o700
    for was_there in (False, True):
        ui_started = []
        monkeypatch.setattr(ui, "_start", lambda port, seen=ui_started: seen.append((port, mode(history))))
        history.chmod(0o755) if was_there else shutil.rmtree(history)
        assert ui.main(["--port", "1"]) == 0
        assert ui_started == [("1", 0o700)]
    result = dg.materialize([rare], instance=dg.DagsterInstance.ephemeral())
    for paths in ({"job": "checks"}, {"job": "refresh", "junit": "build/refresh.xml"}):
        launch.write_reports(result, **paths)
        assert mode(reports) == 0o700
        shutil.rmtree(reports)
    reports.mkdir()
    assert mode(reports) == 0o777
    launch.write_reports(result, "checks")
    assert mode(reports) == 0o700


def test_a_folder_of_ours_is_closed_whatever_the_umask_was(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    keep_private(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
    keep_private(tmp_path / "missing")
