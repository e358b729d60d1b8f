"""The command line (SPEC 6.7)."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from ragspine_assets import cli
from ragspine_assets.chunking import DocumentMeta, chunk_document
from ragspine_assets.policy import DomainProfile, document_reference
from ragspine_assets.serving import Snapshot, publish_snapshot
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import reference_key

CANARY = "Zanzibarquux"
SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "json"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and what was published of it."""
    from ragspine_assets.graph import update_graph

    folder = tmp_path_factory.mktemp("cli")
    store = ChunkStore(folder / "store.duckdb")
    texts = {
        "notes/crane.md": ("Every crane is greased on Monday.\nIn winter the cranes are heated.", "INTERNAL", "HARB"),
        "起重机.txt": ("主轴轴承的质量保证期为六十个月。", "PUBLIC", ""),
        f"{CANARY}.txt": (f"{CANARY} is a secret about the crane.", "RESTRICTED", f"{CANARY}E"),
    }
    with store:
        for doc_id, (text, label, entity) in texts.items():
            meta = DocumentMeta(doc_id=doc_id, title="Cranes [bold]\x1b[31m", sensitivity=label, entity=entity)
            store.replace_doc_chunks(doc_id, chunk_document("Older.", meta) if doc_id == "notes/crane.md" else [])
            store.replace_doc_chunks(doc_id, chunk_document(text, meta))
        update_graph(store, DomainProfile("Harbour", "HARB"))
        publish_snapshot(store, folder / "snapshots")
    return folder


def run(world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run a command and return what it printed; an error is raised as `SystemExit`."""
    monkeypatch.setenv("RAGSPINE_STORE", str(world / "store.duckdb"))
    monkeypatch.setenv("RAGSPINE_SNAPSHOTS", str(world / "snapshots"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "argv", ["ragspine", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return capsys.readouterr().out


@pytest.fixture
def ragspine(world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    return lambda *arguments: run(world, capsys, monkeypatch, *arguments)


def test_search_shows_passage_citation_label_and_score(ragspine) -> None:
    shown = ragspine("search", "greased crane")
    for part in ("notes/crane.md@v2#c0", "INTERNAL", "bm25", "Every crane is greased"):
        assert part in shown


def test_search_in_a_script_without_spaces(ragspine) -> None:
    assert "六十个月" in ragspine("search", "轴承的保证期")


def test_search_as_json_is_one_value_with_the_snippets(ragspine) -> None:
    answer = json.loads(ragspine("search", "crane", "--json", "--top-k", "1"))
    (snippet,) = answer["snippets"]
    assert snippet["citation"] == "notes/crane.md@v2#c0"
    assert snippet["scores"]["bm25"] > 0


def test_an_empty_result_is_an_answer(ragspine) -> None:
    assert "Nothing found" in ragspine("search", "nonesuch")
    assert json.loads(ragspine("search", "nonesuch", "--json"))["snippets"] == []
    assert "no node" in ragspine("graph", "nonesuch")
    assert json.loads(ragspine("show", "nonesuch#c0", "--json")) is None


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    ("found", "empty"),
    [
        (("search", "crane"), ("search", "nonesuch")),
        (("show", "notes/crane.md#c0"), ("show", "nonesuch#c0")),
        (("graph", "HARB"), ("graph", "nonesuch")),
    ],
)
def test_an_empty_result_is_a_failure_only_where_that_was_asked_for(
    ragspine, found: tuple[str, ...], empty: tuple[str, ...], form: tuple[str, ...]
) -> None:
    ragspine(*empty, *form)
    ragspine(*found, "--fail-empty", *form)
    with pytest.raises(SystemExit) as ended:
        ragspine(*empty, "--fail-empty", *form)
    assert ended.value.code == 1


def test_no_document_is_purged_where_none_is_named(ragspine) -> None:
    with pytest.raises(SystemExit, match="No document is named"):
        ragspine("purge", " ")


def strict(schema: object) -> object:
    """Return a schema that allows no key which it does not describe."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(part) for key, part in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in closed else closed


def test_every_json_value_is_what_its_schema_says_and_every_schema_is_of_a_command(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute(
            "CREATE TABLE narrative_chunk (chunk_id, doc_id, seq, text, source_locator, sensitivity, version, active)"
        )
    connection.close()

    def answer(*arguments: str) -> object:
        return json.loads(run(tmp_path, capsys, monkeypatch, *arguments, "--json"))

    answers = {
        "search": [answer("search", "crane", "-k", "2"), answer("search", "nonesuch")],
        "show": [answer("show", "notes/crane.md#c0"), answer("show", "nonesuch#c0")],
        "graph": [answer("graph", "HARB"), answer("graph", "nonesuch")],
        "status": [answer("status"), answer("status", "--snapshots", str(tmp_path / "none"))],
        "status-reveal": [answer("status", "--reveal", "doc:000000000000")],
        "labels": [answer("labels")],
        "settings": [answer("settings")],
        "export": [answer("export", "jsonld", "-o", str(tmp_path / "g.jsonld"))],
        "import-sqlite": [answer("import-sqlite", str(tmp_path / "old.db"), "--store", str(tmp_path / "new.duckdb"))],
        "backup": [answer("backup", "--to", str(tmp_path / "copies"))],
        "snapshots": [answer("snapshots"), answer("snapshots", "--snapshots", str(tmp_path / "none"))],
        "audit": [answer("audit", "notes/crane.md")],
        "rollback": [
            answer("rollback", json.loads(run(tmp_path, capsys, monkeypatch, "snapshots", "--json"))[0]["name"])
        ],
        "purge": [answer("purge", "notes/crane.md")],
    }
    (copy,) = (tmp_path / "copies").glob("*.duckdb")
    answers["restore"] = [answer("restore", str(copy))]
    schemas = {path.name.removesuffix(".schema.json"): path for path in SCHEMAS.glob("*.schema.json")}
    assert set(answers) == set(schemas)
    for name, values in answers.items():
        schema = json.loads(schemas[name].read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for value in values:
            jsonschema.validate(value, strict(schema))


def test_settings_lists_each_variable_with_its_default_and_meaning(ragspine) -> None:
    shown = {row["variable"]: row for row in json.loads(ragspine("settings", "--json"))}
    assert shown["RAGSPINE_MAX_CHARS"]["default"] == 480
    assert all(row["meaning"] for row in shown.values())
    assert "RAGSPINE_SOURCE" in ragspine("settings")


def test_filters_and_labels_restrict_a_search(ragspine) -> None:
    assert "Nothing found" in ragspine("search", "crane", "--entity", "OTHER")
    assert "Nothing found" in ragspine("search", "crane", "--max-label", "PUBLIC")


def test_show_finds_older_versions_in_the_store(ragspine) -> None:
    assert "Every crane" in ragspine("show", "notes/crane.md@v2#c0")
    assert "Older." in ragspine("show", "notes/crane.md@v1#c0")
    assert json.loads(ragspine("show", "notes/crane.md#c0", "--json"))["version"] == 2


@pytest.mark.parametrize("citation", [f"{CANARY}.txt@v1#c0", f"{CANARY}.txt#c0"])
def test_show_says_the_same_of_a_restricted_passage_and_of_none(ragspine, citation: str) -> None:
    assert ragspine("show", citation).replace(citation, "X") == ragspine("show", "none#c0").replace("none#c0", "X")


def test_graph_shows_nodes_edges_and_evidence(ragspine) -> None:
    shown = ragspine("graph", "HARB")
    assert "mentions" in shown
    assert "notes/crane.md#para1" in shown
    assert json.loads(ragspine("graph", "HARB", "--json"))["edges"][0]["evidence"]


def test_export_writes_both_formats(ragspine, tmp_path: Path) -> None:
    ragspine("export", "graphml", "-o", str(tmp_path / "g.graphml"))
    ragspine("export", "jsonld", "-o", str(tmp_path / "g.jsonld"), "--json")
    assert b"<graphml" in (tmp_path / "g.graphml").read_bytes()
    assert json.loads((tmp_path / "g.jsonld").read_bytes())


def test_graph_export_and_show_obey_the_highest_label(ragspine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [("graph", "HARB", "--depth", "2"), ("export", "graphml"), ("export", "jsonld"), ("show", "notes/crane.md#c0"),
             ("show", "notes/crane.md@v1#c0")]  # fmt: skip
    commands = [*asked, *((*command, "--unverified") for command in asked if command[0] != "show")]
    for command in commands:
        assert "crane" in ragspine(*command).replace(command[1], "", 1), command
        assert "para1" not in ragspine(*command, "--max-label", "PUBLIC"), command
    with pytest.raises(SystemExit, match="max_label"):
        ragspine("graph", "HARB", "--max-label", "RESTRICTED")
    monkeypatch.setenv("RAGSPINE_SNAPSHOT_MAX_LABEL", "PUBLIC")
    assert "crane" not in ragspine("graph", "HARB", "--unverified")


def test_show_judges_an_old_version_by_the_rules_of_today(
    ragspine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "profile.toml"
    monkeypatch.setenv("RAGSPINE_PROFILE", str(profile))
    for keyword, shown in (("nonesuch", True), ("older", False), ("grey", True)):
        profile.write_text(
            f'[home]\ncompany_name = "H"\nentity_code = "HARB"\n[sensitivity]\nrestricted_keywords = ["{keyword}"]\n'
        )
        assert ("Older." in ragspine("show", "notes/crane.md@v1#c0")) == shown, keyword


def test_status_says_what_is_published_and_what_waits(ragspine, world: Path) -> None:
    state = json.loads(ragspine("status", "--json"))
    assert state["manifest"]["counts"]["documents"] == 2
    assert state["waiting"] == 0
    assert "2 documents" in ragspine("status")
    store = ChunkStore(world / "store.duckdb")
    meta = DocumentMeta(doc_id="new.txt", sensitivity="PUBLIC")
    store.replace_doc_chunks("new.txt", chunk_document("New.", meta))
    try:
        assert json.loads(ragspine("status", "--json"))["waiting"] == 1
    finally:
        store.replace_doc_chunks("new.txt", [])


def test_status_answers_while_somebody_writes_the_store(ragspine, world: Path) -> None:
    code = f"import duckdb, time; c = duckdb.connect({str(world / 'store.duckdb')!r}); print('up', flush=True); time.sleep(60)"
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert writer.stdout
        writer.stdout.readline()
        assert json.loads(ragspine("status", "--json"))["store"] == "in use by a run"
    finally:
        writer.kill()
        writer.communicate()


def test_status_reveals_what_a_reference_stands_for(ragspine, world: Path) -> None:
    with ChunkStore(world / "store.duckdb").connect() as connection:
        reference = document_reference(f"{CANARY}.txt", reference_key(connection))
    assert f"{CANARY}.txt" in ragspine("status", "--reveal", reference)
    assert json.loads(ragspine("status", "--reveal", "doc:000000000000", "--json")) == {"doc:000000000000": None}


def test_no_output_holds_anything_of_a_restricted_document(ragspine) -> None:
    said = [
        ragspine("search", f"{CANARY} secret crane", "--top-k", "50", "--json").replace(f'"{CANARY} secret crane"', ""),
        ragspine("search", "secret about the crane", "-k", "50", "--window"),
        ragspine("graph", "HARB", "--depth", "6"),
        ragspine("export", "jsonld"),
        ragspine("status"),
    ]
    assert CANARY not in "".join(said)


def test_nothing_a_terminal_would_obey_is_printed(ragspine) -> None:
    shown = ragspine("search", "greased crane") + ragspine("show", "notes/crane.md#c0")
    assert "\x1b[31m" not in shown
    assert "[bold]" in shown


def test_import_sqlite_tells_what_came(ragspine, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute(
            "CREATE TABLE narrative_chunk (chunk_id, doc_id, seq, text, source_locator, sensitivity, version, active)"
        )
        connection.execute("INSERT INTO narrative_chunk VALUES ('o#c0', 'o', 0, 'Old', 'o#para1', 'odd', 1, 1)")
    connection.close()
    arguments = ("import-sqlite", str(tmp_path / "old.db"), "--store", str(tmp_path / "new.duckdb"))
    assert "1 documents" in ragspine(*arguments)
    assert json.loads(ragspine(*arguments, "--json"))["already_there"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search", "x", "--max-label", "RESTRICTED"), "max_label"),
        (("search", "x", "--snapshots", "/nowhere"), "make run"),
        (("import-sqlite", "/nowhere.db"), "/nowhere.db"),
    ],
)
def test_an_error_says_what_to_do(ragspine, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(SystemExit, match=said) as raised:
        ragspine(*arguments)
    assert str(raised.value).startswith("ragspine: ")


@pytest.mark.parametrize("error", [RuntimeError(CANARY), SystemExit(CANARY), SystemExit([CANARY])])
def test_a_foreign_exception_is_not_quoted(ragspine, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Snapshot, "open", leak)
    with pytest.raises(SystemExit) as raised:
        ragspine("search", "x")
    assert type(error).__name__ in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("arguments", [["--help"], ["status"], ["status", "--json"]])
def test_help_and_status_load_no_library_that_takes_long(world: Path, arguments: list[str]) -> None:
    environment = {
        **os.environ, "RAGSPINE_STORE": str(world / "store.duckdb"), "RAGSPINE_SNAPSHOTS": str(world / "snapshots")
    }  # fmt: skip
    command = [sys.executable, "-X", "importtime", "-m", "ragspine_assets.cli", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, env=environment, text=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in loaded
    assert not loaded & {"dagster", "pyarrow", "pandas", "matplotlib", "networkx"}
    assert arguments != ["--help"] or not loaded & {"duckdb", "numpy"}


def test_help_loads_no_library_that_it_does_not_need() -> None:
    code = (
        "import sys; sys.argv = ['ragspine', '--help']; from ragspine_assets import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print(sorted({'dagster', 'duckdb', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_completion_can_be_shown(ragspine) -> None:
    # Else it looks among this process's parents for a shell, and a test need not have one.
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "ragspine_assets.cli", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env=named,
    )
    assert "complete" in done.stdout + done.stderr


def test_purge_forgets_a_document_everywhere_and_lists_what_names_it(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "run.db").write_bytes(b"notes/crane.md")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    said = run(tmp_path, capsys, monkeypatch, "purge", "notes/crane.md")
    assert "is forgotten" in said
    assert "Snapshots deleted" in said
    assert "run.db" in said
    for path in (path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "home"):
        assert b"greased on Monday" not in path.read_bytes(), path
        assert b"notes/crane.md" not in path.read_bytes(), path
    again = json.loads(run(tmp_path, capsys, monkeypatch, "purge", "notes/crane.md", "--json"))
    assert again["found"] is False
