"""Each audit passes on what a run leaves, and fails when its invariant is broken by hand (SPEC 6.3)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragspine_assets.audit.chunk_store import audit_schema, audit_versions
from ragspine_assets.audit.chunks import audit_chunk_labels, audit_chunk_text, audit_windows
from ragspine_assets.audit.raw_documents import audit_labels, audit_source, audit_source_labels
from ragspine_assets.audit.relations import audit_evidence, audit_graph_isolation
from ragspine_assets.audit.result import AuditResult
from ragspine_assets.chunking import make_chunker
from ragspine_assets.documents.metadata import load_metadata_table
from ragspine_assets.pipeline import stage_chunks
from ragspine_assets.policy import DomainProfile, SensitivityPolicy
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conftest import Pipeline

PROFILE = DomainProfile(
    home_company_name="Home", home_entity_code="HOM", home_entity_synonyms={"home company": "HOM", "daughter": "DTR"}
)


@pytest.fixture
def stored(pipeline: Pipeline) -> Pipeline:
    pipeline.profile = PROFILE
    pipeline.policy = SensitivityPolicy(restricted_filename_patterns=["secret"], restricted_keywords=["project heron"])
    text = "\n".join(f"The home company tells its daughter thing number {n}, at some length." for n in range(40))
    pipeline.write(
        {
            "open.txt": text,
            "other.md": "# Other\n\nThe daughter again.",
            "secret/plan.txt": "Nobody may read this of the home company.",
            "keyword.txt": "About Project\u00a0Heron.",
            "metadata.csv": "doc_id,sensitivity\nother.md,CONFIDENTIAL\n",
        }
    )
    pipeline.run()
    return pipeline


AUDITS: dict[str, Callable[[Pipeline], AuditResult]] = {
    "labels": lambda p: audit_labels(p.store),
    "source": lambda p: audit_source(p.store, p.root),
    "source labels": lambda p: audit_source_labels(p.store, p.root, p.policy),
    "chunk text": lambda p: audit_chunk_text(p.store),
    "windows": lambda p: audit_windows(p.store),
    "chunk labels": lambda p: audit_chunk_labels(p.store),
    "versions": lambda p: audit_versions(p.store),
    "schema": lambda p: audit_schema(p.store),
    "graph isolation": lambda p: audit_graph_isolation(p.store),
    "graph evidence": lambda p: audit_evidence(p.store),
}


@pytest.mark.parametrize("name", AUDITS)
def test_every_audit_passes_after_a_run(stored: Pipeline, name: str) -> None:
    result = AUDITS[name](stored)
    assert result.passed, result.message
    assert result.message


@pytest.mark.parametrize("name", AUDITS)
def test_an_audit_does_not_mind_what_was_read_before_on_the_same_connection(stored: Pipeline, name: str) -> None:
    with stored.store as store, store.connect() as connection:
        connection.execute("SELECT doc_id FROM document ORDER BY doc_id").fetchone()
        assert AUDITS[name](stored).passed


BREAKS: list[tuple[str, str, str]] = [
    ("labels", "UPDATE document SET sensitivity = 'SECRET' WHERE doc_id = 'open.txt'", "doc:"),
    ("labels", "UPDATE narrative_chunk SET sensitivity = '' WHERE doc_id = 'open.txt'", "doc:"),
    ("labels", "UPDATE document SET label_reason = ' ' WHERE doc_id = 'open.txt'", "open.txt"),
    ("source", "DELETE FROM document WHERE doc_id = 'open.txt'", "open.txt"),
    ("source labels", "UPDATE document SET sensitivity = 'PUBLIC' WHERE doc_id = 'other.md'", "other.md"),
    ("source labels", "UPDATE document SET sensitivity = 'PUBLIC' WHERE doc_id = 'keyword.txt'", "doc:"),
    ("source labels", "UPDATE document SET sensitivity = 'PUBLIC' WHERE doc_id = 'secret/plan.txt'", "doc:"),
    ("source labels", "UPDATE narrative_chunk SET sensitivity = 'PUBLIC' WHERE doc_id = 'other.md'", "other.md"),
    ("chunk text", "UPDATE staged_chunk SET text = 'x' || text[2:] WHERE doc_id = 'open.txt' AND seq = 1", "open.txt"),
    ("chunk text", "UPDATE staged_chunk SET text = reverse(text) WHERE doc_id = 'open.txt' AND seq = 1", "open.txt"),
    ("chunk text", "UPDATE staged_chunk SET text = text || '.' WHERE doc_id = 'other.md'", "other.md"),
    ("chunk text", "UPDATE staged_chunk SET char_end = char_start, text = '' WHERE doc_id = 'other.md'", "other.md"),
    (
        "chunk text",
        (
            "UPDATE staged_chunk SET seq = seq + 1 WHERE doc_id = 'other.md'; INSERT INTO staged_chunk SELECT * REPLACE "
            "(0 AS seq, -5 AS char_start, -1 AS char_end, 'gain' AS text) FROM staged_chunk WHERE doc_id = 'other.md'"
        ),
        "other.md",
    ),
    ("chunk text", "DELETE FROM staged_chunk WHERE doc_id = 'open.txt' AND seq = 1", "open.txt"),
    ("chunk text", "DELETE FROM staged_chunk WHERE doc_id = 'open.txt'", "open.txt"),
    ("chunk text", "DELETE FROM document_text WHERE doc_id = 'open.txt'", "open.txt (no text)"),
    ("chunk text", "INSERT INTO document_text FROM document_text WHERE doc_id = 'open.txt'", "open.txt (more than one"),
    (
        "chunk text",
        "UPDATE staged_chunk SET source_locator = 'zzz#para77' WHERE doc_id = 'open.txt'",
        "open.txt (locator)",
    ),
    ("chunk text", "UPDATE staged_chunk SET title = 'x' WHERE doc_id = 'open.txt'", "open.txt (metadata)"),
    (
        "chunk text",
        (
            "UPDATE staged_chunk SET para_end = 9, source_locator = doc_id || '#para' || para_start || '-9' "
            "WHERE doc_id = 'open.txt'"
        ),
        "open.txt (paragraphs)",
    ),
    ("chunk text", "DELETE FROM staged_chunk WHERE doc_id = 'secret/plan.txt'", "doc:"),
    ("chunk text", "UPDATE staged_chunk SET char_start = char_start + 1 WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET window_text = 'of another document' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET window_text = '# Other' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET parent_locator = 'other.md#para7-9' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET parent_locator = 'open.txt#para1-9' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET parent_locator = 'other.md#para1-3-9' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET parent_locator = 'other.md#para' WHERE doc_id = 'other.md'", "other.md"),
    ("windows", "UPDATE staged_chunk SET parent_locator = 'other.md' WHERE doc_id = 'other.md'", "other.md"),
    (
        "windows",
        "UPDATE staged_chunk SET window_text = text || ' and what it does not say' WHERE doc_id = 'other.md'",
        "other.md",
    ),
    ("windows", "UPDATE staged_chunk SET window_text = text, doc_id = 'gone.md' WHERE doc_id = 'other.md'", "doc:"),
    ("chunk labels", "UPDATE staged_chunk SET sensitivity = 'PUBLIC' WHERE doc_id = 'other.md'", "other.md"),
    ("chunk labels", "UPDATE narrative_chunk SET sensitivity = 'PUBLIC' WHERE doc_id = 'keyword.txt'", "doc:"),
    ("versions", "UPDATE narrative_chunk SET active = FALSE WHERE doc_id = 'open.txt'", "open.txt"),
    ("versions", "UPDATE narrative_chunk SET version = 3 WHERE doc_id = 'open.txt'", "open.txt"),
    ("versions", "UPDATE narrative_chunk SET version = 2 WHERE doc_id = 'open.txt' AND seq = 0", "open.txt"),
    ("versions", "UPDATE narrative_chunk SET text = 'forged' WHERE doc_id = 'other.md'", "other.md"),
    ("versions", "UPDATE narrative_chunk SET page_end = 7 WHERE doc_id = 'open.txt' AND seq = 2", "open.txt"),
    ("versions", "UPDATE staged_chunk SET window_text = 'other' WHERE doc_id = 'other.md'", "other.md"),
    ("versions", "INSERT INTO staged_chunk FROM staged_chunk WHERE doc_id = 'other.md'", "other.md"),
    ("versions", "DELETE FROM staged_chunk WHERE doc_id = 'other.md'", "other.md"),
    ("versions", "DELETE FROM narrative_chunk WHERE doc_id = 'secret/plan.txt'", "doc:"),
    ("schema", "ALTER TABLE narrative_chunk DROP COLUMN window_text", "window_text"),
    (
        "graph isolation",
        "INSERT INTO graph_node (type, id, source_doc_id, source_locator) VALUES ('doc', 'keyword.txt', 'x', 'x')",
        "doc:",
    ),
    (
        "graph isolation",
        "UPDATE graph_evidence SET source_doc_id = 'secret/plan.txt' WHERE source_doc_id = 'open.txt'",
        "doc:",
    ),
    ("graph isolation", "UPDATE graph_node SET source_locator = 'keyword.txt#para1' WHERE type = 'doc'", "doc:"),
    (
        "graph isolation",
        "INSERT INTO graph_mention (doc_id, entity, source_locator) VALUES ('keyword.txt', 'HOM', 'x')",
        "doc:",
    ),
    (
        "graph isolation",
        "INSERT INTO fact (source_doc_id, source_locator) VALUES ('keyword.txt', 'keyword.txt#para1')",
        "doc:",
    ),
    (
        "graph isolation",
        (
            "INSERT INTO model_answer (answer_id, text_hash) SELECT 'a', sha256(text) FROM narrative_chunk "
            "WHERE doc_id = 'keyword.txt'"
        ),
        "no open document",
    ),
    ("graph evidence", "DELETE FROM graph_evidence WHERE source_doc_id = 'open.txt'", "edge without evidence"),
    ("graph evidence", "DELETE FROM graph_edge WHERE src = 'open.txt'", "evidence without edge"),
    ("graph evidence", "DELETE FROM graph_node WHERE id = 'HOM'", "missing node"),
    ("graph evidence", "UPDATE graph_evidence SET source_locator = ''", "without source"),
    ("graph evidence", "UPDATE graph_evidence SET version = 9 WHERE source_doc_id = 'open.txt'", "does not exist"),
]


@pytest.mark.parametrize(("name", "statement", "example"), BREAKS, ids=lambda value: str(value)[:60])
def test_an_audit_fails_and_says_where_when_its_invariant_is_broken(
    stored: Pipeline, name: str, statement: str, example: str
) -> None:
    with stored.store.connect() as connection:
        connection.execute(statement)
    # A store that is opened again would repair its schema first: the audit must see the break.
    with stored.store:
        result = AUDITS[name](stored)
    assert not result.passed
    assert any(example in found for found in result.examples), result.examples
    assert result.message.count(".") >= 2


def test_audit_results_name_no_restricted_document_and_hold_no_text(stored: Pipeline) -> None:
    with stored.store.connect() as connection:
        connection.execute("UPDATE staged_chunk SET text = 'Zanzibar' || text, sensitivity = 'PUBLIC'")
        connection.execute("UPDATE document SET sensitivity = 'PUBLIC'")
    for audit in AUDITS.values():
        result = audit(stored)
        said = " ".join([result.message, *result.examples, *result.warnings])
        assert "Zanzibar" not in said
        assert "Heron" not in said


def test_an_answer_about_a_text_of_an_open_document_is_no_trace(stored: Pipeline) -> None:
    with stored.store.connect() as connection:
        connection.execute(
            "INSERT INTO model_answer (answer_id, text_hash) SELECT 'a', sha256(text) FROM narrative_chunk "
            "WHERE doc_id = 'other.md'"
        )
    assert audit_graph_isolation(stored.store).passed


def test_documents_that_no_folder_holds_are_not_compared_with_what_is_staged(stored: Pipeline) -> None:
    chunks = [chunk.as_chunk() for chunk in stored.store.iter_chunks(doc_id="other.md")]
    stored.store.replace_doc_chunks("api.md", [replace(chunk, doc_id="api.md") for chunk in chunks])
    assert audit_versions(stored.store).passed


def test_a_label_raised_in_the_source_after_the_run_is_seen(stored: Pipeline) -> None:
    stored.write({"other.md": "---\nsensitivity: RESTRICTED\n---\n# Other"})
    (stored.root / "metadata.csv").unlink()
    result = audit_source_labels(stored.store, stored.root, stored.policy)
    assert result.violations == 1
    assert result.examples[0].startswith("doc:")


def test_a_row_that_spells_a_path_in_another_way_is_seen_too(stored: Pipeline) -> None:
    assert audit_source_labels(stored.store, stored.root, stored.policy).passed
    (stored.root / "metadata.csv").write_text("doc_id,sensitivity\n.\\Other.MD,RESTRICTED\n")
    assert audit_source_labels(stored.store, stored.root, stored.policy).violations == 1


def test_a_row_raised_after_the_run_is_seen_without_a_run(stored: Pipeline) -> None:
    stored.write({"metadata.csv": "doc_id,sensitivity\nother.md,CONFIDENTIAL\n*.txt,RESTRICTED\n"})
    result = audit_source_labels(stored.store, stored.root, stored.policy)
    assert result.violations == 1
    assert result.examples[0].startswith("doc:")


def test_files_that_came_after_the_run_wait_and_are_no_violation(stored: Pipeline) -> None:
    stored.write({"new.txt": "new"})
    result = audit_source(stored.store, stored.root)
    assert result.passed
    assert result.counts["waiting for the next run"] == 1


def test_failed_documents_are_warnings(stored: Pipeline) -> None:
    stored.write({"bad.txt": b"\x00\x01\x02\xff\xfe\x00bad" * 50, "empty.txt": ""})
    stored.run()
    result = audit_source(stored.store, stored.root)
    assert result.passed
    assert len(result.warnings) == 2
    assert any(warning.startswith("doc:") and "failed" in warning for warning in result.warnings)


def test_two_files_of_one_id_are_a_warning_and_a_label_for_nothing_is_an_error(stored: Pipeline) -> None:
    for name in ("caf\u00e9.txt", "cafe\u0301.txt"):
        (stored.root / name).write_text("Coffee.")
    result = audit_source(stored.store, stored.root)
    assert result.passed
    assert [warning.startswith("doc:") for warning in result.warnings if "two files" in warning] == [True]
    table = load_metadata_table(b"doc_id,sensitivity\nnowhere.txt,RESTRICTED\nneither.txt,INTERNAL\n")
    result = audit_source(stored.store, stored.root, table)
    assert (result.passed, result.violations) == (False, 1)
    assert "line 2" in result.examples[0]


def test_many_violations_are_counted_and_ten_are_shown(pipeline: Pipeline) -> None:
    pipeline.write({f"{n:02}.txt": f"text {n}" for n in range(25)})
    pipeline.run()
    with pipeline.store.connect() as connection:
        connection.execute("UPDATE narrative_chunk SET text = 'forged'")
    result = audit_versions(pipeline.store)
    assert result.violations == 25
    assert len(result.examples) == 10
    assert isinstance(pipeline.store, ChunkStore)


def test_a_window_may_begin_with_the_header_of_its_table_and_with_no_other(pipeline: Pipeline) -> None:
    rows = "\n".join(f"| Company {n} | {n} |" for n in range(90))
    pipeline.write({"table.md": f"Before the table.\n\n| Name | Amount |\n|---|---|\n{rows}\n"})
    with pipeline.store:
        pipeline.intake()
        stage_chunks(pipeline.store, make_chunker("structure"))
    assert pipeline.rows("SELECT count(*) FROM staged_chunk WHERE window_text LIKE '| Name |%'")[0][0] > 1
    assert audit_windows(pipeline.store).passed
    with pipeline.store.connect() as connection:
        connection.execute("UPDATE staged_chunk SET window_text = replace(window_text, 'Amount', 'Profit')")
    assert not audit_windows(pipeline.store).passed
