"""Every check on what is published sees what it is there for (SPEC 6.3)."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ragspine_assets.audit.result import AuditResult
from ragspine_assets.audit.serving import (
    audit_levels,
    audit_published_files,
    audit_published_isolation,
    audit_published_labels,
    audit_ranking,
)
from ragspine_assets.index.analysis import make_analyzer
from ragspine_assets.index.lexical import LexicalIndex, write_index
from ragspine_assets.serving import Snapshot
from ragspine_assets.serving.chunk_table import map_table, table_in_slices, write_table
from ragspine_assets.serving.indexes import INDEXES
from ragspine_assets.serving.snapshot_files import (
    CHUNKS,
    CURRENT,
    GRAPH_TABLES,
    MANIFEST,
    read_manifest,
    seal,
    snapshot_folders,
)
from ragspine_assets_tests.serving.conftest import SECRET, Port

AUDITS: dict[str, Callable[[Port], AuditResult]] = {
    "files": lambda port: audit_published_files(port.pipeline.store, port.root),
    "isolation": lambda port: audit_published_isolation(port.pipeline.store, port.root, port.pipeline.profile),
    "labels": lambda port: audit_published_labels(port.pipeline.store, port.root),
    "ranking": lambda port: audit_ranking(port.root),
}


def folder_of(port: Port) -> Path:
    (folder,) = snapshot_folders(port.root)
    return folder


def reseal(folder: Path) -> None:
    """Make a changed folder look as if it had been published so."""
    manifest = read_manifest(folder)
    (folder / MANIFEST).unlink()
    seal(folder, manifest)


def rewrite(folder: Path, change: Callable[[list[dict[str, object]]], None], name: str = CHUNKS) -> None:
    """Change the rows of a published table, and seal it again."""
    table = map_table(folder / name)
    rows = table.to_pylist()
    change(rows)
    columns = {
        field.name: pa.array([row[field.name] for row in rows]).cast(_plain(field.type)) for field in table.schema
    }
    encoded = [
        columns[field.name].dictionary_encode() if pa.types.is_dictionary(field.type) else columns[field.name]
        for field in table.schema
    ]
    write_table(pa.table(encoded, schema=table.schema), folder / "new.arrow")
    (folder / "new.arrow").replace(folder / name)
    reseal(folder)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_what_was_published_holds(published: Port, audit: Callable[[Port], AuditResult]) -> None:
    result = audit(published)
    assert result.passed, result.message
    assert result.checked
    assert not result.warnings


@pytest.mark.parametrize("limit", ["PUBLIC", "INTERNAL"])
@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_what_was_published_with_a_lower_limit_holds(
    port: Port, limit: str, audit: Callable[[Port], AuditResult]
) -> None:
    port.run(max_label=limit)
    assert audit(port).passed


@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_where_nothing_is_published_nothing_is_broken_and_somebody_is_told(
    port: Port, audit: Callable[[Port], AuditResult]
) -> None:
    port.pipeline.run()
    result = audit(port)
    assert result.passed
    assert "Nothing is published" in result.warnings[0]


@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_a_snapshot_that_cannot_be_opened_is_broken(published: Port, audit: Callable[[Port], AuditResult]) -> None:
    (folder_of(published) / CHUNKS).unlink()
    assert not audit(published).passed


def test_a_changed_byte_is_seen(published: Port) -> None:
    path = folder_of(published) / "lexical" / "counts.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "lexical/counts.npy" in AUDITS["files"](published).message


def forge_text(rows: list[dict[str, object]]) -> None:
    rows[0]["text"] = "Forged."


def lose_a_row(rows: list[dict[str, object]]) -> None:
    rows.pop()


def lower_a_label(rows: list[dict[str, object]]) -> None:
    next(row for row in rows if row["sensitivity"] == "CONFIDENTIAL")["sensitivity"] = "PUBLIC"


@pytest.mark.parametrize("name", GRAPH_TABLES)
def test_a_file_of_the_graph_that_cannot_be_read_any_more_is_called_damaged(published: Port, name: str) -> None:
    path = published.open().path / f"{name}.arrow"
    # Names of files are no UTF-8 any more.
    damaged = path.read_bytes().replace(b".txt", b"\xff\xfe\xff\xfe").replace(b".md", b"\xff\xfe\xff")
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    result = audit_published_files(published.pipeline.store, published.root)
    assert any(f"{name}.arrow is not as it was published" in example for example in result.examples)


@pytest.mark.parametrize("change", [forge_text, lose_a_row, lower_a_label])
def test_rows_that_are_not_the_stores_are_seen(
    published: Port, change: Callable[[list[dict[str, object]]], None]
) -> None:
    rewrite(folder_of(published), change)
    result = AUDITS["files"](published)
    assert not result.passed


def test_a_change_of_the_store_that_is_not_published_is_seen(published: Port) -> None:
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE narrative_chunk SET title = 'Other' WHERE doc_id = 'cranes.md'")
    assert "cranes.md differs" in AUDITS["files"](published).message


@pytest.mark.parametrize("name", ["graph_node", "graph_edge", "graph_evidence"])
def test_a_graph_that_is_not_the_stores_is_seen(published: Port, name: str) -> None:
    rewrite(folder_of(published), lambda rows: rows.__delitem__(0), f"{name}.arrow")
    assert name in AUDITS["files"](published).message


def leak_text(rows: list[dict[str, object]]) -> None:
    rows[0]["text"] = f"As they say, {SECRET[10:70]} and so on."


def leak_title(rows: list[dict[str, object]]) -> None:
    rows[0]["title"] = "Quuxtitle of the plan"


def leak_path(rows: list[dict[str, object]]) -> None:
    rows[0]["heading"] = "see board/plan.txt"


def leak_entity(rows: list[dict[str, object]]) -> None:
    rows[0]["entity"] = "ZANZ"


@pytest.mark.parametrize("change", [leak_text, leak_title, leak_path, leak_entity])
def test_something_of_a_restricted_document_is_found_and_not_named(
    published: Port, change: Callable[[list[dict[str, object]]], None]
) -> None:
    rewrite(folder_of(published), change)
    result = AUDITS["isolation"](published)
    assert not result.passed
    assert "something of doc:" in result.message
    assert "plan" not in result.message
    assert "Zanz" not in result.message


def test_a_word_of_a_restricted_document_among_the_terms_is_found(published: Port) -> None:
    folder = folder_of(published)
    chunks = published.open().chunks
    words = [text.lower().split() for text in chunks.texts()]
    words[0].append("zanzibarquux")
    LexicalIndex(words).save(folder / "lexical")
    reseal(folder)
    assert not AUDITS["isolation"](published).passed


def test_a_restricted_name_in_the_manifest_is_found(published: Port) -> None:
    folder = folder_of(published)
    manifest = read_manifest(folder)
    (folder / MANIFEST).unlink()
    seal(folder, replace(manifest, sources={**manifest.sources, "hidden": "board/plan.txt"}))
    assert not AUDITS["isolation"](published).passed


def test_what_an_open_document_says_too_is_no_trace(port: Port) -> None:
    port.pipeline.write({"harbour.txt": f"Everybody knows: {SECRET} See board/plan.txt, ZANZ, Quuxtitle of the plan."})
    port.run()
    assert AUDITS["isolation"](port).passed


def test_a_label_that_is_higher_now_is_seen_and_withdraws_what_is_current(published: Port) -> None:
    reader = published.open()
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'cranes.md'")
        connection.execute("UPDATE narrative_chunk SET sensitivity = 'RESTRICTED' WHERE doc_id = 'cranes.md'")
    result = AUDITS["labels"](published)
    assert not result.passed
    assert "withdrawn" in result.message
    assert "cranes" not in result.message
    assert not (published.root / CURRENT).exists()
    assert not reader.is_current()


def test_a_label_that_is_higher_now_is_seen_in_a_kept_snapshot_too(published: Port) -> None:
    (published.pipeline.root / "numbers.txt").unlink()
    published.run()
    with published.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'numbers.txt'")
    assert not AUDITS["labels"](published).passed
    assert published.open().is_current()


def test_scores_that_are_not_those_of_bm25_are_seen(published: Port) -> None:
    folder = folder_of(published)
    counts = np.load(folder / "lexical" / "counts.npy")
    np.save(folder / "lexical" / "counts.npy", counts + counts.dtype.type(1))
    reseal(folder)
    assert not AUDITS["ranking"](published).passed


def test_a_draw_of_the_texts_finds_wrong_scores_too(published: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragspine_assets.audit.serving._READ", 3)
    assert AUDITS["ranking"](published).passed
    folder = folder_of(published)
    counts = np.load(folder / "lexical" / "counts.npy")
    np.save(folder / "lexical" / "counts.npy", counts + counts.dtype.type(1))
    reseal(folder)
    assert not AUDITS["ranking"](published).passed


def test_a_hit_that_the_rounded_scores_miss_is_seen(published: Port) -> None:
    folder = folder_of(published)
    data = np.load(folder / "lexical" / "data.csc.index.npy")
    np.save(folder / "lexical" / "data.csc.index.npy", np.zeros_like(data))
    reseal(folder)
    assert "other hits" in AUDITS["ranking"](published).message


def test_a_table_in_slices_is_the_whole_table(published: Port) -> None:
    path = folder_of(published) / "chunks.arrow"
    assert pa.concat_tables(table_in_slices(path, 2)).equals(map_table(path))


def test_a_column_of_chunks_that_is_not_published_is_seen(published: Port) -> None:
    with published.pipeline.store.connect() as connection:
        connection.execute("ALTER TABLE narrative_chunk ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
    result = audit_published_files(published.pipeline.store, published.root)
    assert not result.passed
    assert "mood" in repr(result)


def test_every_column_of_chunks_is_published_with_its_value(published: Port) -> None:
    with published.pipeline.store.connect() as connection:
        stored = {name for name, *_ in connection.execute("DESCRIBE narrative_chunk").fetchall()}
    names = set(map_table(folder_of(published) / CHUNKS).schema.names)
    assert stored - names == {"ingested_at", "active"}


def test_a_file_of_a_former_release_that_lacks_a_column_is_read(published: Port) -> None:
    folder = folder_of(published)
    write_table(map_table(folder / CHUNKS).drop_columns(["heading_path"]), folder / "older")
    (folder / "older").replace(folder / CHUNKS)
    reseal(folder)
    snapshot = published.open()
    assert {snapshot.chunks[position].heading_path for position in range(len(snapshot))} == {""}
    assert not audit_published_files(published.pipeline.store, published.root).passed


def test_an_index_that_nothing_proves_is_seen(published: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragspine_assets.audit.serving._PROOFS", {})
    assert not audit_ranking(published.root).passed


def test_every_index_of_a_release_is_built_and_opened(published: Port) -> None:
    folder = folder_of(published)
    assert {index.name for index in INDEXES} == set(published.open().indexes)
    assert all((folder / index.name).is_dir() for index in INDEXES)


def test_a_level_that_holds_its_own_rows_and_nothing_else_holds(published: Port) -> None:
    assert audit_levels(published.pipeline.store, published.root).message.startswith("Nobody below")
    published.publish(levels=["PUBLIC", "INTERNAL"])
    result = audit_levels(published.pipeline.store, published.root)
    assert result.passed, result.message
    assert result.checked > 20


def _another_word(folder: Path) -> None:
    """Let one passage be found by a word of what is above it."""
    snapshot = Snapshot.open(folder)
    texts = list(snapshot.up_to("INTERNAL").chunks.texts())
    analyzer = make_analyzer("default")
    shutil.rmtree(folder / "levels/INTERNAL/lexical")
    write_index(
        folder / "levels/INTERNAL/lexical",
        [analyzer.tokens([*texts[:-1], f"{texts[-1]} tariffs"], "")],
        size=len(texts),
    )


def _whole_graph(folder: Path) -> None:
    for table in GRAPH_TABLES:
        shutil.copy(folder / f"{table}.arrow", folder / "levels/INTERNAL" / f"{table}.arrow")


def _statistics_of_all(folder: Path) -> None:
    """Rank by frequencies that count what is above, in an index that finds the same passages."""
    for name in ("data.csc.index.npy", "terms.npy"):
        path = folder / "levels/INTERNAL/lexical" / name
        array = np.load(path)
        np.save(path, np.flip(array) if name == "data.csc.index.npy" else array)
    lengths = folder / "levels/INTERNAL/lexical/lengths.npy"
    np.save(lengths, np.load(lengths) + 1)


@pytest.mark.parametrize("change", [_another_word, _whole_graph, _statistics_of_all])
def test_a_level_with_anything_of_what_is_above_it_is_found_out(
    published: Port, change: Callable[[Path], None]
) -> None:
    published.publish(levels=["INTERNAL"], keep=1)
    folder = folder_of(published)
    change(folder)
    reseal(folder)
    assert not audit_levels(published.pipeline.store, published.root).passed
