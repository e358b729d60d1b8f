"""A schedule fires by itself under `dagster dev`, and its run carries the selection: `make e2e` (SPEC 4.1, 6.4)."""

import os
from pathlib import Path

import pytest

from ragspine_assets.store import ChunkStore

from .server import serve

pytestmark = pytest.mark.skipif(os.environ.get("E2E") != "1", reason="a schedule takes a minute to fire: make e2e")


def test_a_schedule_with_a_one_minute_cron_fires_and_its_run_carries_the_selection(tmp_path: Path) -> None:
    with serve(
        tmp_path,
        RAGSPINE_REFRESH_CRON="* * * * *",
        RAGSPINE_WATCH_INTERVAL_S="3600",
        RAGSPINE_CHUNKER="parent_child",
        RAGSPINE_RELATION_EXTRACTOR="deterministic",
    ) as server:
        seen: set[str] = set()
        while True:
            run = server.wait_for_run(seen, timeout_s=150)
            if run.tags.get("dagster/schedule_name") == "refresh_daily":
                break
            seen.add(run.run_id)
    assert run.status == "SUCCESS"
    assert run.tags["ragspine/chunker"] == "parent_child"
    assert run.tags["ragspine/relation_extractor"] == "deterministic"
    assert "parent_child" in run.config
    with ChunkStore(tmp_path / "data" / "ragspine.duckdb").connect() as connection:
        assert connection.execute("SELECT count(*) > 0 FROM narrative_chunk WHERE window_text != ''").fetchall() == [
            (True,)
        ]
