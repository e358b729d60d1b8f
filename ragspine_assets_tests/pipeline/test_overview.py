"""Figures and digests that leave the store tell nothing of a RESTRICTED document (SPEC 6.1)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragspine_assets.pipeline.overview import document_overview, staged_overview, store_overview
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import set_setting
from ragspine_assets_tests.conftest import Pipeline

FILES: dict[str, str | bytes] = {
    "open.txt": "An open sentence.",
    "secret.txt": "The code is 4711; it is écrit in another encoding.".encode("cp1252"),
    "metadata.csv": "doc_id,language,sensitivity\nopen.txt,en,PUBLIC\nsecret.txt,xx-secret,RESTRICTED\n",
    **{f"{n}.md": f"---\nlanguage: l{n:02}\n---\nText." for n in range(25)},
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    (folder / "source").mkdir()
    pipeline = Pipeline(folder / "source", ChunkStore(folder / "store.duckdb"))
    pipeline.write(FILES)
    pipeline.run()
    return folder / "store.duckdb"


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> ChunkStore:
    return ChunkStore(shutil.copy(filled, tmp_path / "store.duckdb"))


def open_all(store: ChunkStore) -> None:
    with store.connect() as connection:
        for table in ("document", "narrative_chunk"):
            connection.execute(f"UPDATE {table} SET sensitivity = 'INTERNAL' WHERE sensitivity = 'RESTRICTED'")


def versions(store: ChunkStore, key: str) -> list[str]:
    with store.connect() as connection:
        set_setting(connection, "reference_key", key * 32)
    return [document_overview(store).digest, staged_overview(store).digest, store_overview(store).digest]


def test_what_a_restricted_document_states_is_counted_as_other(store: ChunkStore) -> None:
    assert "xx-secret" not in str(store_overview(store))
    assert store_overview(store).by_language["other"]["RESTRICTED"] == 1
    assert {row["encoding"] for row in document_overview(store).encodings} == {"utf-8", "other"}
    # Otherwise it would be shown: the label is what hides it.
    open_all(store)
    assert "other" not in str(document_overview(store).encodings)


def test_rare_languages_share_a_bar(store: ChunkStore) -> None:
    shown = store_overview(store)
    assert len(shown.by_language) == 21
    assert shown.active_chunks == 27


def test_data_versions_over_restricted_content_need_the_key_of_the_store(store: ChunkStore) -> None:
    told = versions(store, "11")
    assert versions(store, "11") == told
    assert not set(versions(store, "22")) & set(told)


def test_data_versions_of_open_content_are_the_same_in_every_store(store: ChunkStore) -> None:
    open_all(store)
    assert versions(store, "22") == versions(store, "11")
