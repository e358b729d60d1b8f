"""The checks of an asset share a step, and each stays a check of its own (SPEC 6.3)."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.checks.verdicts import Check, checks_of, store_check
from ragspine_assets.defs.failures import explain_failure
from ragspine_assets.defs.reports import verdicts
from ragspine_assets.defs.resources import StoreResource
from ragspine_assets.store import ChunkStore, StoreBusyError

CANARY = "Zanzibarquux"


@dg.asset
def first() -> None:
    pass


@dg.asset(deps=[first])
def second() -> None:
    pass


def holds() -> AuditResult:
    return AuditResult(checked=3).conclude("All 3 are well.", "are ill.")


def is_broken() -> AuditResult:
    result = AuditResult(checked=3)
    result.violate("a.txt")
    return result.conclude("All 3 are well.", "are ill.")


def warns() -> AuditResult:
    return AuditResult(checked=3, warnings=["b.txt is odd"]).conclude("All 3 are well.", "are ill.")


def breaks() -> AuditResult:
    raise KeyError(f"{CANARY} in the message")


def finds_the_store_busy() -> AuditResult:
    raise StoreBusyError("Process 7 holds the store. End it, then run again.")


Proofs = dict[str, Callable[[], AuditResult]]


def run(
    proofs: Proofs, instance: dg.DagsterInstance, *, selection: dg.AssetSelection | None = None
) -> dg.ExecuteInProcessResult:
    """Run two assets, the first with checks; or what is selected of that."""
    checks = checks_of(first, *(Check(name, f"{name}.", prove) for name, prove in proofs.items()))
    job = dg.define_asset_job("job", selection=selection or dg.AssetSelection.all())
    definitions = dg.Definitions([first, second], asset_checks=[checks], jobs=[job], executor=dg.in_process_executor)
    return definitions.resolve_job_def("job").execute_in_process(instance=instance, raise_on_error=False)


def evaluated(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {check.check_name: check.passed for check in result.get_asset_check_evaluations()}


def materialised(result: dg.ExecuteInProcessResult) -> list[str]:
    return [event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key]


def test_checks_that_hold_let_downstream_go_on(instance: dg.DagsterInstance) -> None:
    result = run({"one": holds, "two": holds}, instance)
    assert result.success
    assert evaluated(result) == {"one": True, "two": True}
    assert materialised(result) == ["first", "second"]
    assert [e.step_key for e in result.all_events if e.is_step_success] == ["first", "first_checks", "second"]


def test_a_broken_promise_stops_downstream_and_the_checks_after_it_are_evaluated(instance: dg.DagsterInstance) -> None:
    result = run({"one": holds, "two": is_broken, "three": holds}, instance)
    assert not result.success
    assert evaluated(result) == {"one": True, "two": False, "three": True}
    assert materialised(result) == ["first"]
    assert [(v.name, v.outcome) for v in verdicts(result)] == [("one", "holds"), ("two", "broken"), ("three", "holds")]


def test_a_warning_stops_nothing(instance: dg.DagsterInstance) -> None:
    result = run({"one": warns, "two": holds}, instance)
    assert result.success
    assert materialised(result) == ["first", "second"]
    assert [(verdict.name, verdict.outcome) for verdict in verdicts(result)] == [("one", "look"), ("two", "holds")]


def test_a_check_that_raises_stops_downstream_is_named_and_keeps_no_other_from_being_evaluated(
    instance: dg.DagsterInstance,
) -> None:
    result = run({"one": breaks, "two": is_broken, "three": holds}, instance)
    assert not result.success
    assert evaluated(result) == {"two": False, "three": True}
    assert materialised(result) == ["first"]
    failed = [(verdict.name, verdict.sentence) for verdict in verdicts(result) if verdict.outcome == "failed"]
    assert len(failed) == 1
    assert failed[0][0] == "first_checks"
    assert failed[0][1].startswith("one: KeyError in one, at ")
    reasons = explain_failure(instance, result.dagster_run).reasons
    assert [reason.partition("KeyError")[0] for reason in reasons] == [
        "the promise first: two is broken. 1 of 3: are ill. First: a.txt.", "step first_checks: one: ",
    ]  # fmt: skip
    assert CANARY not in " ".join(str(entry) for entry in instance.all_logs(result.run_id))


def test_checks_that_break_for_one_reason_are_named_together(instance: dg.DagsterInstance) -> None:
    result = run({"one": finds_the_store_busy, "two": breaks, "three": finds_the_store_busy}, instance)
    (failed,) = verdicts(result)
    assert failed.sentence.startswith(
        "one, three: Process 7 holds the store. End it, then run again. two: KeyError in two"
    )


def test_one_check_can_be_selected_alone(instance: dg.DagsterInstance) -> None:
    proofs: Proofs = {"one": breaks, "two": holds, "three": is_broken}
    only = dg.AssetSelection.checks(dg.AssetCheckKey(first.key, "two"))
    result = run(proofs, instance, selection=only)
    assert result.success
    assert evaluated(result) == {"two": True}
    assert materialised(result) == []
    result = run(proofs, instance, selection=only | dg.AssetSelection.assets(first, second).without_checks())
    assert evaluated(result) == {"two": True}
    assert materialised(result) == ["first", "second"]


def test_each_check_says_how_long_it_took_by_itself(instance: dg.DagsterInstance) -> None:
    import time

    def slow() -> AuditResult:
        time.sleep(0.2)
        return holds()

    found = {verdict.name: verdict.seconds for verdict in verdicts(run({"slow": slow, "fast": holds}, instance))}
    assert found["slow"] >= 0.2
    assert found["fast"] < 0.2


def test_a_check_gets_the_resources_that_its_parameters_are_named_after(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    def audit(store: ChunkStore) -> AuditResult:
        with store.connect() as connection:
            return AuditResult(checked=len(connection.execute("SELECT 1").fetchall())).conclude("Well.", "ill.")

    definitions = dg.Definitions(
        [first],
        asset_checks=[
            checks_of(first, store_check("reads_the_store", audit, "Well."), Check("reads_nothing", ".", holds))
        ],
        resources={"store": StoreResource(path=str(tmp_path / "s.duckdb"))},
        executor=dg.in_process_executor,
    )
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    assert evaluated(result) == {"reads_the_store": True, "reads_nothing": True}


@pytest.mark.parametrize("asset", ["raw_documents", "serving_snapshot"])
def test_each_check_of_the_location_runs_alone(asset: str, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("One document.\n")
    service = ServiceConfig(
        source=str(tmp_path / "source"), store=str(tmp_path / "state" / "s.duckdb"), profile="", facts="", workers=1
    )
    definitions = build_defs(service)
    assert definitions.resolve_job_def("refresh").execute_in_process(instance=instance).success
    for key in definitions.get_repository_def().asset_graph.asset_check_keys:
        if key.asset_key.to_user_string() == asset:
            one = dg.Definitions.merge(
                definitions, dg.Definitions(jobs=[dg.define_asset_job("one", dg.AssetSelection.checks(key))])
            )
            result = one.resolve_job_def("one").execute_in_process(instance=instance)
            assert evaluated(result) == {key.name: True}
