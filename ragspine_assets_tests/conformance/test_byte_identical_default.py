"""Promise: same input, same output, on any machine, in any order of files; what is off changes no byte (SPEC, promise 3).

The default output is compared with a file that was frozen, not with the code itself.
"""

import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from ragspine_assets.chunking import make_chunker
from ragspine_assets.pipeline import stage_chunks
from ragspine_assets.pipeline.versions import activate_staged
from ragspine_assets.store import ChunkStore

from .frozen import DEMO, GOLDEN, freeze


@pytest.fixture(scope="module")
def golden() -> str:
    text = GOLDEN.read_text()
    for name, frozen in json.loads(text)["parsers"][0].items():
        if version(name) != frozen:
            pytest.skip(f"frozen with {name} {frozen}, not {version(name)}")
    return text


def copied(folder: Path, *, backwards: bool = False) -> Path:
    """Copy the demo corpus so that the file system lists it in another order, with other times."""
    target = folder / "another" / "place"
    paths = sorted(path for path in (DEMO / "raw").rglob("*") if path.is_file())
    for path in reversed(paths) if backwards else paths:
        copy = target / path.relative_to(DEMO / "raw")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        os.utime(copy, (1, 1))
    return target


def same(frozen: str, golden: str) -> None:
    ours, theirs = json.loads(frozen), json.loads(golden)
    for part in theirs:
        assert ours[part] == theirs[part], part
    assert frozen == golden


def test_the_demo_corpus_gives_the_frozen_output(golden: str, tmp_path: Path) -> None:
    same(freeze(DEMO / "raw", ChunkStore(tmp_path / "s.duckdb")), golden)


def test_another_folder_another_order_and_two_workers_give_the_same(golden: str, tmp_path: Path) -> None:
    source = copied(tmp_path, backwards=True)
    store = ChunkStore(tmp_path / "s.duckdb")
    same(freeze(source, store, workers=2), golden)
    same(freeze(source, store), golden)


def test_the_default_chunker_by_name_changes_no_byte(golden: str, tmp_path: Path) -> None:
    same(freeze(copied(tmp_path), ChunkStore(tmp_path / "s.duckdb"), chunker="default"), golden)


def test_switching_a_chunker_on_and_off_again_gives_the_same_rows_in_a_further_version(
    golden: str, tmp_path: Path
) -> None:
    store = ChunkStore(tmp_path / "s.duckdb")
    freeze(DEMO / "raw", store)
    for spec in ("parent_child", "none"):
        stage_chunks(store, make_chunker(spec))
        activate_staged(store)
    chunk_rows = json.loads(golden)["chunks"]
    with store.connect() as connection:
        rows = connection.execute(
            "SELECT chunk_id, source_locator, char_start, char_end FROM narrative_chunk WHERE active ORDER BY doc_id, seq"
        ).fetchall()
    assert [list(row) for row in rows] == [[r[0], r[4], r[7], r[8]] for r in chunk_rows]


def test_a_change_of_one_letter_is_seen(golden: str, tmp_path: Path) -> None:
    source = copied(tmp_path)
    changed = next(path for path in sorted(source.rglob("*.md")) if path.read_text().count("e") > 10)
    changed.write_text(changed.read_text().replace("e", "3", 1))
    assert freeze(source, ChunkStore(tmp_path / "s.duckdb")) != golden
