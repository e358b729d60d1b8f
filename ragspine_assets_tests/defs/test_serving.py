"""The asset `serving_snapshot` in real runs (SPEC 6.6)."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.assets.serving_snapshot import failed_upstream_checks
from ragspine_assets.defs.naming import Naming
from ragspine_assets.serving import Snapshot, SnapshotError
from ragspine_assets.serving.snapshot_files import snapshot_folders
from ragspine_assets.store import ChunkStore

CANARY = "Zanzibarquux"


@pytest.fixture
def service(tmp_path: Path) -> ServiceConfig:
    source = tmp_path / "source"
    source.mkdir()
    (source / "open.txt").write_text("Cranes are greased.\nShips wait.\n" * 20)
    (source / "more.txt").write_text("Tariffs rise.\n")
    (source / f"{CANARY}.md").write_text(
        f"---\ntitle: {CANARY}title\n---\n# {CANARY}heading\n\n{CANARY} in the text.\n"
    )
    (source / "metadata.csv").write_text(
        f"doc_id,topic,entity,sensitivity\n{CANARY}.md,{CANARY}topic,{CANARY}entity,RESTRICTED\nopen.txt,t,E,PUBLIC\n"
    )
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "f.csv").write_text(
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        "REV,E,FY,2024,1.5,EUR_M,open.txt,open.txt#para1\n"
        f"{CANARY}M,{CANARY}E,FY,2024,1.5,{CANARY}U,{CANARY}.md,{CANARY}.md#para1\n"
    )
    return ServiceConfig(
        source=str(source), store=str(tmp_path / "state" / "s.duckdb"), profile="", facts=str(facts), workers=1
    )


def run(job: str, service: ServiceConfig, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return build_defs(service).resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False)


def test_a_refresh_publishes_and_proves_it(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    result = run("refresh", service, instance)
    assert result.success
    checks = {
        e.check_name: e.passed for e in result.get_asset_check_evaluations() if e.asset_key.path == ["serving_snapshot"]
    }
    assert checks == {
        "files_equal_the_servable_rows": True,
        "snapshot_has_no_restricted_trace": True,
        "nothing_published_has_a_higher_label_now": True,
        "fast_index_agrees_with_bm25": True,
        "lower_audiences_are_served_as_if_nothing_else_were_there": True,
    }
    (shown,) = [
        event.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey("serving_snapshot") and event.materialization
    ]
    assert shown["published"].value is True
    assert shown["documents"].value == 2
    snapshot = Snapshot.open(service.snapshots_folder())
    assert snapshot.is_current()
    assert snapshot.retriever().retrieve("cranes")


def test_what_a_failed_check_said_last_forbids_publishing_in_another_run(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run("refresh", service, instance)
    before = Snapshot.open(service.snapshots_folder()).manifest
    with ChunkStore(service.store).connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged' WHERE doc_id = 'open.txt' AND seq = 0")
    assert not run("checks", service, instance).success
    assert failed_upstream_checks(instance, Naming()) == ["chunk_store: one_active_version_equal_to_staged"]
    definitions = build_defs(service)
    alone = dg.materialize(
        [definitions.get_assets_def(name) for name in ("serving_snapshot", "chunk_store", "relation_graph")],
        selection=["serving_snapshot"],
        resources=definitions.resources,
        instance=instance,
        raise_on_error=False,
    )
    assert not alone.success
    assert Snapshot.open(service.snapshots_folder()).manifest == before
    assert run("refresh", service, instance).success
    assert failed_upstream_checks(instance, Naming()) == []


def test_a_check_that_sees_a_higher_label_withdraws_what_is_current(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run("refresh", service, instance)
    reader = Snapshot.open(service.snapshots_folder())
    with ChunkStore(service.store).connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'open.txt'")
        connection.execute("UPDATE narrative_chunk SET sensitivity = 'RESTRICTED' WHERE doc_id = 'open.txt'")
    result = run("checks", service, instance)
    assert "nothing_published_has_a_higher_label_now" in {
        e.check_name for e in result.get_asset_check_evaluations() if not e.passed
    }
    assert not reader.is_current()
    with pytest.raises(SnapshotError):
        Snapshot.open(service.snapshots_folder())


def test_a_label_raised_in_the_source_is_gone_from_every_kept_snapshot_after_the_next_run(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    run("refresh", service, instance)
    Path(service.source, "more.txt").write_text("Tariffs fall.\n")
    run("refresh", service, instance)
    assert len(snapshot_folders(Path(service.snapshots_folder()))) == 2
    with Path(service.source, "metadata.csv").open("a") as table:
        table.write("more.txt,,,RESTRICTED\n")
    assert run("refresh", service, instance).success
    left = b"".join(p.read_bytes() for p in Path(service.snapshots_folder()).rglob("*") if p.is_file())
    assert b"ariffs" not in left
    assert b"more.txt" not in left


@pytest.mark.parametrize(
    ("chunker", "extractor"),
    [("none", "none"), ("layout", "deterministic"), ("parent_child", "none"), ("sentence_window", "deterministic")],
)
def test_no_byte_of_a_restricted_document_leaves_the_store(
    service: ServiceConfig,
    instance: dg.DagsterInstance,
    chunker: str,
    extractor: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    service = replace(service, chunker=chunker, relation_extractor=extractor)
    assert run("refresh", service, instance).success
    with ChunkStore(service.store).connect() as connection:
        held = connection.execute(f"SELECT count(*) FROM narrative_chunk WHERE text LIKE '%{CANARY}%'").fetchall()
    assert held[0][0] > 0
    output = capfd.readouterr()
    assert CANARY not in output.out + output.err
    needles = [CANARY.encode(), CANARY.casefold().encode()]
    inside = {Path(service.source), Path(service.facts), Path(service.store)}
    for path in tmp_path.rglob("*"):
        if inside.isdisjoint([path, *path.parents]):
            assert CANARY not in path.name
            assert not path.is_file() or not any(needle in path.read_bytes() for needle in needles), path


@pytest.mark.parametrize("change", [{"snapshot_max_label": "RESTRICTED"}, {"snapshot_keep": 0}, {"analyzer": "magic"}])
def test_a_wrong_setting_fails_when_the_definitions_load(service: ServiceConfig, change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"(?i)max_label|keep|analyzer"):
        build_defs(replace(service, **change))  # pyright: ignore[reportArgumentType]


def test_snapshots_lie_beside_their_store() -> None:
    assert ServiceConfig().snapshots_folder() == "data/snapshots"
    assert ServiceConfig(store="x/mine.duckdb").snapshots_folder() == "x/mine.snapshots"
    assert ServiceConfig(store="x/mine.duckdb", snapshots="y").snapshots_folder() == "y"
