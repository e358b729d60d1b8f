"""The job with a model behind it: what the UI shows, what it costs, what stays out of the event log (SPEC 5.6, 6)."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets_tests.graph.extraction_world import leads
from ragspine_assets_tests.llm.endpoint import Endpoint, Fail, Request, Say

pytest.importorskip("openai")

CANARY = "Zanzibarquux"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceConfig:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "RAGSPINE_LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("Ann leads Boltworks since the spring.")
    (source / "b.txt").write_text("Cy leads the home company.")
    (source / "secret.txt").write_text(f"{CANARY} leads Ann.")
    (source / "metadata.csv").write_text("doc_id,sensitivity\nsecret.txt,RESTRICTED\n")
    profile = tmp_path / "profile.toml"
    profile.write_text('[home]\ncompany_name = "Home"\nentity_code = "HOM"\n[home.synonyms]\n"home company" = "HOM"\n')
    return ServiceConfig(
        source=str(source),
        store=str(tmp_path / "state" / "s.duckdb"),
        profile=str(profile),
        facts="",
        snapshots=str(tmp_path / "snapshots"),
        review=str(tmp_path / "review.csv"),
        workers=1,
        relation_extractor="llm",
        llm_model="openai:m",
    )


def say(request: Request) -> Say:
    if "Boltworks" in request.prompt:
        return Say(leads(("Ann", "Boltworks"), ("Ann", "Nobody")), 100, 10)
    return Say(leads(("Cy", "home company")), 100, 10)


def run(service: ServiceConfig, instance: dg.DagsterInstance) -> dict[str, object]:
    result = build_defs(service).resolve_job_def("refresh").execute_in_process(instance=instance, raise_on_error=False)
    assert result.success
    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())
    (event,) = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey("relation_graph")]
    assert event.materialization
    return {key: value.value for key, value in event.materialization.metadata.items()}


def test_a_run_shows_what_the_model_cost_and_asks_nothing_twice(
    service: ServiceConfig, instance: dg.DagsterInstance, capfd: pytest.CaptureFixture[str]
) -> None:
    with Endpoint(say) as endpoint:
        asked = replace(service, llm_base_url=f"{endpoint.url}/v1")
        first = run(asked, instance)
        (Path(service.review)).write_text("src,type,dst,verdict,who,when\nAnn,leads,Boltworks,accept,Eva,2026-01-02\n")
        second = run(asked, instance)
        assert len(endpoint.requests) == 2
        assert not any(CANARY in request.raw for request in endpoint.requests)
    expected = {
        "llm calls": 2, "llm answers": 2, "llm cache hits": 0, "llm input tokens": 200, "llm output tokens": 20,
        "llm chunks left": 0, "refused: not_in_text": 1, "model edges": 2, "model edges that wait for review": 2,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert (second["llm calls"], second["llm cache hits"], second["llm input tokens"]) == (0, 2, 0)
    assert (second["decisions: accepted"], second["model edges that wait for review"]) == (1, 1)
    shown = capfd.readouterr()
    everything = (
        shown.out
        + shown.err
        + "".join(str(entry.to_json()) for entry in instance.all_logs(instance.get_runs()[0].run_id))
    )
    assert CANARY not in everything
    assert "since the spring" not in everything
    # Names and types are words of a document, whose label may be raised after the log was written.
    assert "Boltworks" not in everything
    assert "leads" not in everything.replace("leads to", "")


def test_without_a_model_the_ui_says_what_was_asked_for_and_why_there_is_none(
    service: ServiceConfig, instance: dg.DagsterInstance
) -> None:
    shown = run(replace(service, llm_model=""), instance)
    assert shown["relation extractor"] == (
        "llm was asked for; none was used, since no model is named: set RAGSPINE_LLM_MODEL"
    )
    shown = run(service, instance)
    assert "OPENAI_API_KEY" in str(shown["relation extractor"])
    assert shown["model edges"] == 0


def test_a_dry_run_and_a_limit_say_what_is_left(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    with Endpoint(say) as endpoint:
        asked = replace(service, llm_base_url=f"{endpoint.url}/v1")
        shown = run(replace(asked, llm_dry_run=True), instance)
        assert endpoint.requests == []
        assert (shown["llm chunks left"], shown["llm calls left"]) == (2, 2)
        assert int(str(shown["llm tokens left"])) > 500
        assert "dry run" in str(shown["llm stopped"])
        shown = run(replace(asked, max_llm_calls=1), instance)
        assert (shown["llm calls"], shown["llm chunks left"]) == (1, 1)
        assert "limit" in str(shown["llm stopped"])


def test_an_endpoint_that_fails_costs_edges_and_no_run(service: ServiceConfig, instance: dg.DagsterInstance) -> None:
    with Endpoint([Fail(404)]) as endpoint:
        shown = run(replace(service, llm_base_url=f"{endpoint.url}/v1"), instance)
    assert (shown["refused: provider: http_404"], shown["model edges"], shown["llm chunks left"]) == (2, 0, 2)
