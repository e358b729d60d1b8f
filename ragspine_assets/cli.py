"""The command line `ragspine`: looking at what is published, and a few errands around the store (SPEC 6.7).

Every answer is a table for people or, with ``--json``, one JSON value for programs. An empty result is an answer. Libraries
are loaded when a command needs them, so that help and status are there at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragspine_assets.config import ServiceConfig, environment_name
from ragspine_assets.errors import RagspineError, is_cancel

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ragspine_assets.graph import DuckDBGraphStore, GraphEdge
    from ragspine_assets.policy import Sensitivity
    from ragspine_assets.serving import Snapshot
    from ragspine_assets.store import StoredChunk

app = typer.Typer(
    name="ragspine",
    help="Look at what is published: search it, cite it, walk its graph. Settings come from RAGSPINE_ variables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="One JSON value instead of tables.")]
FailEmpty = Annotated[bool, typer.Option("--fail-empty", help="Exit code 1 where nothing is found.")]
Snapshots = Annotated[
    str,
    typer.Option(
        "--snapshots",
        metavar="FOLDER",
        help="Folder of snapshots, or one snapshot's folder.",
        envvar=environment_name("snapshots"),
    ),
]
Store = Annotated[
    str, typer.Option("--store", metavar="FILE", help="The chunk store.", envvar=environment_name("store"))
]
MaxLabel = Annotated[
    str,
    typer.Option(help="Highest label of a document that anything shown rests on; never above what is published."),
]


@app.command()
def init(folder: Annotated[str, typer.Argument(help="Where to; it may exist and hold other files.")]) -> None:
    """Make a project folder: a source with a sample, a profile, settings of Dagster."""
    from ragspine_assets.project import make_project

    made = make_project(folder)
    console = _console()
    console.print(_line(f"{len(made)} files are in {folder}: your documents go into {folder}/data/raw."))
    console.print(_line(f"Next: cd {folder}, then `ragspine run`."))


@app.command()
def run(
    junit: Annotated[str, typer.Option(metavar="FILE", help="JUnit XML of what was found.")] = "",
    summary: Annotated[str, typer.Option(metavar="FILE", help="The same as Markdown.")] = "",
) -> None:
    """Bring everything up to date and prove the promises: 0, 1 when one is broken or a step fails, 2 for a setting."""
    _become("ragspine_assets.defs.launch", "refresh", **{"--junit": junit, "--summary": summary})


@app.command()
def check(
    junit: Annotated[str, typer.Option(metavar="FILE", help="JUnit XML; build/checks.xml if not given.")] = "",
    summary: Annotated[str, typer.Option(metavar="FILE", help="Markdown; build/checks.md if not given.")] = "",
) -> None:
    """Prove the promises on what is stored, changing nothing: 0, 1 when one is broken, 2 for a setting."""
    _become("ragspine_assets.defs.launch", "checks", **{"--junit": junit, "--summary": summary})


@app.command()
def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of this machine's loopback address.")] = 3000,
) -> None:
    """Open Dagster on this machine; it has no login."""
    from importlib.util import find_spec

    if find_spec("dagster_webserver") is None:
        raise typer.BadParameter("the UI needs Dagster's web server: pip install 'ragspine_assets[ui]'.")
    _become("ragspine_assets.defs.ui", **{"--port": str(port)})


@app.command()
def settings(as_json: Json = False) -> None:
    """List every setting: its variable, its default, what it decides."""
    known = [
        {"variable": environment_name(item.name), "default": item.default, "meaning": item.metadata["meaning"]}
        for item in fields(ServiceConfig)
    ]
    if as_json:
        _print_json(known)
        return
    _table(_console(), "", ("variable", "default", "what it decides"), [tuple(row.values()) for row in known])


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="The question, in any of the documents' languages.")],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many passages at most.")] = 5,
    window: Annotated[
        bool, typer.Option("--window", help="Show the section around a passage, where there is one.")
    ] = False,
    topic: Annotated[str, typer.Option(help="Only documents with this topic.")] = "",
    entity: Annotated[str, typer.Option(help="Only documents about this entity.")] = "",
    geography: Annotated[str, typer.Option(help="Only documents about this place.")] = "",
    period: Annotated[str, typer.Option(help="Only documents about this period.")] = "",
    language: Annotated[str, typer.Option(help="Only documents in this language.")] = "",
    max_label: Annotated[str, typer.Option(help="Highest label of a passage; that of the snapshot if not given.")] = "",
    snapshots: Snapshots = "",
    fail_empty: FailEmpty = False,
    as_json: Json = False,
) -> None:
    """Find the passages that answer a question."""
    snapshot = _snapshot(snapshots)
    filters = {"topic": topic, "entity": entity, "geography": geography, "period": period, "language": language}
    snippets = snapshot.retriever(max_label=max_label or None).retrieve(query, filters=filters, top_k=top_k)
    found = []
    for snippet in snippets:
        chunk = snapshot.chunk(str(snippet["chunk_id"]))
        found.append({"citation": chunk.citation if chunk else snippet["chunk_id"], **snippet})
    if as_json:
        _print_json({"query": query, "snapshot": snapshot.manifest.name, "snippets": found})
        raise typer.Exit(int(fail_empty and not found))
    console = _console()
    if not found:
        console.print("Nothing found. Try other words, or fewer filters.")
    told = found[0].get("corrected") if found else None
    corrected = told if isinstance(told, Mapping) else {}
    for word, others in corrected.items():
        console.print(_line(f"Nothing holds {word}; looked for {', '.join(others)} instead.", "yellow"))
    terms = _query_terms(" ".join([query, *(other for others in corrected.values() for other in others)]), snapshot)
    for rank, snippet in enumerate(found, start=1):
        scores = snippet["scores"]
        place = str(snippet.get("parent_locator", "")) if window else ""
        console.rule(_line(f"{rank}  {snippet['citation']}", "bold"), align="left", style="dim")
        about = [snippet["title"], snippet["source_locator"], place and f"shown: {place}", snippet["sensitivity"]]
        score = f"bm25 {scores['bm25']:.2f}" if isinstance(scores, Mapping) else ""
        console.print(_line("  ".join(str(part) for part in [*about, score] if part), "cyan"))
        text = str((window and snippet.get("prompt_text")) or snippet["text"])
        console.print(_highlighted(text, terms), soft_wrap=False)
    raise typer.Exit(int(fail_empty and not found))


@app.command()
def show(
    citation: Annotated[
        str, typer.Argument(help="What search prints: DOCUMENT@vVERSION#cNUMBER, or DOCUMENT#cNUMBER.")
    ],
    window: Annotated[bool, typer.Option("--window", help="Show the section around it, where there is one.")] = False,
    max_label: MaxLabel = "",
    snapshots: Snapshots = "",
    store: Store = "",
    fail_empty: FailEmpty = False,
    as_json: Json = False,
) -> None:
    """Show a cited passage: from the snapshot, else from the store, where older versions are."""
    from ragspine_assets.policy import read_label
    from ragspine_assets.serving import SnapshotError

    config = _config(snapshots, store)
    chunk = None
    limit = _highest(config, max_label)
    try:
        chunk = _snapshot(snapshots).chunk(citation)
        if chunk is not None and read_label(chunk.sensitivity) > limit:
            chunk = None
    except SnapshotError:
        if not Path(config.store).is_file():
            raise
    if chunk is None and Path(config.store).is_file():
        from ragspine_assets.documents.metadata import metadata_table_of
        from ragspine_assets.policy import SensitivityPolicy, load_profile
        from ragspine_assets.serving.citations import cited_chunk
        from ragspine_assets.store import ChunkStore

        chunk = cited_chunk(
            ChunkStore(config.store, wait_s=config.wait_s),
            citation,
            max_label=limit,
            policy=load_profile(config.profile).sensitivity if config.profile else SensitivityPolicy(),
            metadata=metadata_table_of(config.source),
        )
    if as_json:
        _print_json(_chunk_fields(chunk) if chunk else None)
        raise typer.Exit(int(fail_empty and chunk is None))
    console = _console()
    if chunk is None:
        console.print(_line(f"Nothing that may be shown is called {citation}. `ragspine search` prints citations."))
        raise typer.Exit(int(fail_empty))
    rows = [
        (name, str(value))
        for name, value in _chunk_fields(chunk).items()
        if name not in {"text", "window_text"} and value
    ]
    _table(console, "", ("field", "value"), rows)
    console.print(_line(chunk.window_text if window and chunk.window_text else chunk.text))


@app.command()
def graph(
    node: Annotated[str, typer.Argument(help="An entity, a metric or a document, by its id.")],
    depth: Annotated[int, typer.Option(min=0, max=6, help="How many edges away.")] = 1,
    edge_type: Annotated[
        list[str] | None, typer.Option("--type", help="Only edges of this type; may be repeated.")
    ] = None,
    unverified: Annotated[
        bool, typer.Option(help="Also edges that a model asserted, from the store; each is marked.")
    ] = False,
    max_label: MaxLabel = "",
    snapshots: Snapshots = "",
    fail_empty: FailEmpty = False,
    as_json: Json = False,
) -> None:
    """Show what the graph says about a node, with the evidence."""
    view = _graph(snapshots, unverified=unverified, max_label=max_label)
    part = view.subgraph([node], depth=depth, edge_types=edge_type or None, include_model_derived=unverified)
    edges = []
    for edge in part.edges:
        evidence = [asdict(one) for one in view.evidence(edge)]
        edges.append({**_edge_fields(edge), "metadata": dict(edge.metadata), "evidence": evidence})
    nodes = [{"id": n.id, "type": n.type, "label": n.label, "metadata": dict(n.metadata)} for n in part.nodes]
    if as_json:
        _print_json({"nodes": nodes, "edges": edges})
        raise typer.Exit(int(fail_empty and not nodes))
    console = _console()
    if not nodes:
        console.print(_line(f"The graph has no node {node}."))
        raise typer.Exit(int(fail_empty))
    _table(console, "Nodes", ("type", "id", "label"), [(n["type"], n["id"], n["label"]) for n in nodes])
    rows = []
    for edge in edges:
        places = [str(one["source_locator"]) for one in edge["evidence"]]
        marks = " ".join(edge["metadata"].get(mark, "") for mark in ("derived", "verified")).strip()
        more = f" and {len(places) - 2} more" if len(places) > 2 else ""
        rows.append((edge["src"], edge["type"], edge["dst"], marks, ", ".join(places[:2]) + more))
    _table(console, "Edges", ("from", "relation", "to", "marks", "evidence"), rows)


@app.command()
def export(
    form: Annotated[str, typer.Argument(metavar="graphml|jsonld", help="The format.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; standard output if not given.")
    ] = "",
    unverified: Annotated[
        bool, typer.Option(help="Also edges that a model asserted, from the store; each is marked.")
    ] = False,
    max_label: MaxLabel = "",
    snapshots: Snapshots = "",
    as_json: Json = False,
) -> None:
    """Write the published graph as GraphML or JSON-LD."""
    from ragspine_assets.graph.exports import export_graphml, export_jsonld

    writers = {"graphml": export_graphml, "jsonld": export_jsonld}
    if form not in writers:
        raise typer.BadParameter(f"{form!r} is no format; there are: {', '.join(writers)}.")
    data = writers[form](
        _graph(snapshots, unverified=unverified, max_label=max_label), include_model_derived=unverified
    )
    if not output:
        sys.stdout.buffer.write(data)
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}.") from None
    if as_json:
        _print_json({"file": output, "bytes": len(data)})
    else:
        _console().print(_line(f"{len(data):,} bytes in {output}."))


@app.command("import-sqlite")
def import_store(
    file: Annotated[str, typer.Argument(help="The SQLite store of rag-spine.")],
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Import the chunks of a rag-spine store: versions, labels and locators are kept."""
    from ragspine_assets.pipeline.import_sqlite import import_sqlite
    from ragspine_assets.store import ChunkStore

    config = _config("", store)
    report = import_sqlite(ChunkStore(config.store, wait_s=config.wait_s), file)
    if as_json:
        _print_json(asdict(report))
        return
    said = f"{report.documents} documents with {report.versions} versions and {report.chunks} chunks are in {config.store}."
    if report.already_there:
        said += f" {report.already_there} documents were there already and were left as they are."
    if report.unknown_labels:
        said += f" {report.unknown_labels} chunks had labels outside the lattice and are RESTRICTED."
    _console().print(_line(f"{said} Publish with `make run`."))


@app.command()
def purge(
    doc_id: Annotated[str, typer.Argument(help="The document, by its id: its path below the source.")],
    snapshots: Snapshots = "",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Forget a document: no row and no byte of it stays in the store, its copies, its derivatives or any snapshot."""
    from ragspine_assets.graph import withdraw_documents
    from ragspine_assets.pipeline.purge import purge_document
    from ragspine_assets.serving.publish import withdraw_documents_from_snapshots
    from ragspine_assets.store import ChunkStore
    from ragspine_assets.store.copies import copies_folder, copies_in, replaced_beside

    config = _config(snapshots, store)
    if not Path(config.store).is_file():
        raise typer.BadParameter(f"there is no store {config.store} to purge from; name it with --store.")
    folder = config.snapshots_folder()
    report = purge_document(
        ChunkStore(config.store, wait_s=config.wait_s),
        doc_id,
        withdraw=withdraw_documents,
        snapshots=lambda doc_ids: withdraw_documents_from_snapshots(folder, doc_ids),
        history=os.environ.get("DAGSTER_HOME") or ".dagster",
        copies=[*copies_in(config.copies or copies_folder(config.store), config.store), *replaced_beside(config.store)],
        wait_s=config.wait_s,
    )
    from ragspine_assets.service.request_log import served_to

    served = served_to(config.request_log_folder(), report.doc_id)
    if as_json:
        _print_json({**asdict(report), "found": report.found, "served_to": [asdict(one) for one in served]})
        return
    console = _console()
    if report.found:
        console.print(
            _line(f"{report.doc_id} is forgotten: {sum(report.rows.values())} rows are gone from {config.store}.")
        )
    else:
        console.print(_line(f"Nothing was held of {report.doc_id}; the store was rewritten all the same."))
    if report.snapshots:
        console.print(_line(f"Snapshots deleted: {', '.join(report.snapshots)}. Publish again with `make run`."))
    for one in served:
        console.print(_line(f"{one.client} had been served it: {one.times} requests, the last {one.last[:19]}Z."))
    if report.file_is_there:
        console.print(_line("Its file is still in the source: delete it, or the next run brings the document back."))
    if report.left:
        console.print(
            _line(f"Its id still stands in {', '.join(report.left)}: tables that this release does not know.")
        )
    if report.named_in:
        console.print(_line("The event history names it in these files, which are left as they are:"))
        for path in report.named_in:
            console.print(_line(f"  {path}"))
    if report.copies:
        console.print(_line(f"Copies of the store that held it too: {', '.join(map(str, report.copies))}."))
    for path, why in report.unreached.items():
        console.print(_line(f"The copy {path} cannot be purged and is to be deleted: {why}"))
    console.print(
        _line(
            "Copies made otherwise, exports, releases taken elsewhere and snapshots of the disk are out of its reach."
        )
    )


@app.command()
def backup(
    to: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="Where copies lie; RAGSPINE_COPIES, else beside the store.")
    ] = "",
    keep: Annotated[int, typer.Option(min=0, help="How many copies are kept there; RAGSPINE_COPIES_KEEP.")] = 0,
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Copy the store, and prove that the copy reads back. It holds all text, RESTRICTED text too: guard it like the store."""
    from ragspine_assets.pipeline.backup import back_up

    config = _config("", store)
    made = back_up(config.store, to or config.copies, keep=keep or config.copies_keep, wait_s=config.wait_s)
    if as_json:
        _print_json(asdict(made))
        return
    console = _console()
    console.print(
        _line(f"{made.path}: {made.documents} documents, {made.rows} rows, {made.bytes / 1e6:.1f} MB, read back.")
    )
    if made.removed:
        console.print(_line(f"Older copies deleted: {', '.join(path.name for path in made.removed)}."))
    console.print(_line("It holds what the store holds, RESTRICTED text too. `ragspine restore FILE` puts it back."))


@app.command()
def restore(
    file: Annotated[str, typer.Argument(help="The copy.")],
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Put a copy in the place of the store; what was there stays beside it, and nothing purged or closed since comes back."""
    from ragspine_assets.graph import withdraw_documents
    from ragspine_assets.pipeline.backup import restore as put_back

    config = _config("", store)
    done = put_back(file, config.store, withdraw=withdraw_documents, wait_s=config.wait_s)
    if as_json:
        _print_json(asdict(done))
        return
    console = _console()
    console.print(_line(f"{config.store} is the copy {done.copy} now: {done.rows} rows."))
    if done.replaced:
        console.print(_line(f"What it replaced is {done.replaced}; delete it when it is not needed any more."))
    if done.raised or done.purged:
        console.print(
            _line(f"Since the copy, {done.raised} labels were raised and {done.purged} documents purged: still so.")
        )
    if done.replaced and not done.compared:
        console.print(
            _line(
                "What it replaced cannot be read: labels raised and documents purged since the copy are not known here."
            )
        )
    console.print(
        _line("Next: `make run`, before anything is served from it: it reads the labels of the source again.")
    )


Questions = Annotated[
    str,
    typer.Option("--questions", metavar="FILE", help="Golden questions.", envvar=environment_name("questions")),
]


@app.command()
def evaluate(
    against: Annotated[
        str, typer.Option(metavar="NAME", help="Compare with this kept snapshot, by its name or folder.")
    ] = "",
    questions: Questions = "",
    snapshots: Snapshots = "",
    as_json: Json = False,
) -> None:
    """Ask a snapshot the golden questions: how well it answers, and whether it answers worse than another.

    Exit code 1 when it is significantly worse than the one it is compared with, or below RAGSPINE_QUALITY_FLOOR.
    """
    from ragspine_assets.evaluation.comparison import compare, power_line
    from ragspine_assets.evaluation.gate import below_floor, worse
    from ragspine_assets.evaluation.measures import evaluate as judge
    from ragspine_assets.evaluation.measures import measure_names
    from ragspine_assets.evaluation.questions import QuestionsError, read_questions

    config = _config(snapshots, "")
    path = questions or config.questions
    if not path:
        raise QuestionsError("Name the golden questions: --questions FILE. `ragspine questions` drafts some.")
    golden = read_questions(path)
    snapshot = _snapshot(snapshots)
    now = judge(snapshot, golden)
    compared = None
    if against:
        beside = Path(against) if Path(against).is_dir() else snapshot.path.parent / against
        compared = compare(judge(_snapshot(str(beside)), golden), now)
    problem = below_floor(now, config.quality_floor) or (worse(compared) if compared else "")
    stale = [one.question.number for one in now.stale()]
    if as_json:
        _print_json(
            {
                "snapshot": now.snapshot,
                "questions": [
                    {"line": one.question.number, "question": one.question.text, "stale": one.stale, **one.values}
                    for one in now.judged
                ],
                "means": now.table(),
                "against": asdict(compared) if compared else None,
                "problem": problem,
            }
        )
    else:
        console = _console()
        shown = [name.replace("passage in ", "in ") for name in measure_names()]
        rows = [
            [f"{row['by']} {row['value']}".strip(), row["questions"], *(f"{row[name]:.3f}" for name in measure_names())]
            for row in now.table()
        ]
        _table(console, f"{now.snapshot}", ("questions", "n", *shown), rows)
        if stale:
            console.print(_line(f"stale, not counted: the questions of lines {', '.join(map(str, stale))}", "yellow"))
        if compared:
            console.print(
                f"{compared.measure} {compared.after:.3f}, before {compared.before:.3f} "
                f"({compared.questions} questions, p = {compared.p_worse:.3f})."
            )
            lost = [[one.number, one.text, f"{old:.3f}", f"{new:.3f}"] for one, old, new in compared.worse]
            _table(console, "got worse", ("line", "question", "before", "now"), lost)
        console.print(power_line(len(now.judged) - len(stale)))
        if problem:
            console.print(_line(f"{now.snapshot} is worse: {problem}.", "red"))
    if problem:
        raise typer.Exit(1)


@app.command()
def questions(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many at most.")] = 50,
    snapshots: Snapshots = "",
) -> None:
    """Draft golden questions from what is published, as CSV on the terminal: edit them before they judge anything."""
    from ragspine_assets.evaluation.drafts import draft_questions
    from ragspine_assets.evaluation.questions import write_questions

    typer.echo(write_questions(draft_questions(_snapshot(snapshots), count)), nl=False)


@app.command()
def labels(store: Store = "", as_json: Json = False) -> None:
    """Say why documents have their labels: carried labels, markings, keywords, patterns, reasons, and what is wrong."""
    from ragspine_assets.pipeline.labels import label_overview
    from ragspine_assets.store import ChunkStore

    config = _config("", store)
    if not Path(config.store).is_file():
        raise typer.BadParameter(f"there is no store {config.store} to ask; name it with --store.")
    overview = label_overview(ChunkStore(config.store, wait_s=config.wait_s))
    if as_json:
        _print_json(asdict(overview))
        return
    console = _console()
    if not overview.labels:
        console.print("No document has a label yet. `make run` reads the source.")
        return
    _table(console, "Labels", ("label", "documents"), list(overview.labels.items()))
    _table(console, "Reasons", ("label", "decided by", "documents"), overview.reasons)
    if overview.signals:
        rows = [(s.rule, s.what, s.level, s.documents, s.decided) for s in overview.signals]
        _table(console, "What speaks for a label", ("rule", "which", "asks for", "found in", "decided"), rows)
    if overview.read_for_label_only:
        rows = [(kind, things, documents) for kind, (things, documents) in overview.read_for_label_only.items()]
        _table(console, "Read for the label only", ("kind", "things", "documents"), rows)
    if overview.problems:
        _table(console, "To look at", ("document", "what, and what to do"), overview.problems)


@app.command()
def status(
    reveal: Annotated[
        list[str] | None,
        typer.Option("--reveal", metavar="doc:...", help="Say which document a reference stands for; may be repeated."),
    ] = None,
    snapshots: Snapshots = "",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Say what is published, from what, how old it is, and what waits."""
    config = _config(snapshots, store)
    if reveal:
        from ragspine_assets.serving.citations import revealed
        from ragspine_assets.store import ChunkStore

        if not Path(config.store).is_file():
            raise typer.BadParameter(f"there is no store {config.store} to ask; name it with --store.")
        names = revealed(ChunkStore(config.store, wait_s=config.wait_s), reveal)
        if as_json:
            _print_json(names)
        else:
            rows = [(reference, name or "unknown in this store") for reference, name in names.items()]
            _table(_console(), "", ("reference", "document"), rows)
        return
    from ragspine_assets.serving.status import publication_status

    state = publication_status(config.snapshots_folder(), config.store)
    manifest = state.manifest
    if as_json:
        known = {**asdict(manifest), "name": manifest.name} if manifest else None
        _print_json({**asdict(state), "manifest": known})
        return
    rows: list[tuple[object, ...]] = []
    if manifest is None:
        rows.append(("published", f"nothing in {state.root}; `make run` publishes"))
    else:
        counts = manifest.counts
        chunks = ", ".join(
            f"{counts[f'chunks {label}']:,} {label}" for label in manifest.labels if f"chunks {label}" in counts
        )
        rows += [
            ("published", f"{state.root}/{manifest.name}"),
            ("age", f"{_duration(state.age_s)}, since {manifest.published_at[:19]}Z"),
            ("holds", f"{counts['documents']:,} documents, {counts['chunks']:,} chunks ({chunks or 'none'})"),
            (
                "graph",
                f"{counts['nodes']:,} nodes, {counts['edges']:,} edges, {counts['evidence']:,} pieces of evidence",
            ),
            ("highest label", manifest.max_label),
            ("made with", "; ".join([manifest.analyzer_version, f"analyzer {manifest.analyzer}", *manifest.chunkers])),
            ("size", f"{state.bytes / 1e6:,.1f} MB; {state.kept} snapshots kept"),
        ]
    rows.append(("store", f"{config.store}: {state.store}"))
    if state.waiting is not None:
        rows.append(("waits", f"{state.waiting:,} documents are newer than what is published"))
    if state.problems:
        rows.append(("look at", f"{state.problems:,} documents failed or have no text; `make check` lists them"))
    _table(_console(), "", ("", ""), rows)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; RAGSPINE_SERVE_HOST.")] = "",
    port: Annotated[int, typer.Option(min=-1, max=65535, help="Port; RAGSPINE_SERVE_PORT.")] = -1,
    clients: Annotated[str, typer.Option(metavar="FILE", help="Who may ask.", envvar=environment_name("clients"))] = "",
    certificate: Annotated[str, typer.Option(metavar="FILE", help="Certificate, for TLS.")] = "",
    certificate_key: Annotated[str, typer.Option(metavar="FILE", help="Key of the certificate.")] = "",
    snapshots: Snapshots = "",
) -> None:
    """Answer over HTTP from the current snapshot, each client within its audience."""
    from ragspine_assets.service.server import ServeSettings
    from ragspine_assets.service.server import serve as serve_http

    config = _config(snapshots, "", clients=clients)
    serve_http(
        ServeSettings(
            snapshots=config.snapshots_folder(),
            clients=config.clients_file(),
            host=host or config.serve_host,
            port=config.serve_port if port < 0 else port,
            origins=config.serve_origins,
            log=config.request_log_folder(),
            trusted_keys=config.trusted_key_files(),
            certificate=certificate,
            certificate_key=certificate_key,
        )
    )


@app.command("mcp")
def serve_mcp(
    client: Annotated[str, typer.Option(help="A client of the clients' file, whose label and filters apply.")] = "",
    max_label: Annotated[
        str, typer.Option(help="Highest label that is served, where no client is named.")
    ] = "INTERNAL",
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP on loopback, at /mcp, instead of stdio.")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port, with --http.")] = 8001,
    snapshots: Snapshots = "",
) -> None:
    """Answer agents over MCP from the current snapshot; the audience is fixed here, and no argument changes it."""
    from ragspine_assets.retrieval.narrative_index import servable_label
    from ragspine_assets.service.clients import Client, Clients
    from ragspine_assets.service.mcp_server import make_mcp_server
    from ragspine_assets.service.releases import Releases
    from ragspine_assets.service.request_log import RequestLog

    config = _config(snapshots, "")
    audience = Client("mcp", servable_label(max_label))
    if client:
        named = {one.name: one for one in Clients(config.clients_file() or None).all()}
        if client not in named:
            raise typer.BadParameter(f"there is no client {client!r}; there are: {', '.join(named)}.")
        audience = named[client]
    releases = Releases(config.snapshots_folder(), trusted_keys=config.trusted_key_files())
    server = make_mcp_server(releases, audience, RequestLog(config.request_log_folder()))
    if http:
        server.run("streamable-http", host="127.0.0.1", port=port, stateless_http=True, json_response=True)
    else:
        server.run("stdio")


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="What the log is to call the client.")],
    max_label: Annotated[str, typer.Option(help="Highest label it is served.")] = "INTERNAL",
) -> None:
    """Make a token for a client, shown once, and the section of the clients' file that lets it in."""
    import secrets

    from ragspine_assets.service.clients import new_client

    made = secrets.token_urlsafe(32)
    section = new_client(name, max_label, made)
    sys.stderr.write(f"The token of {name}, which is kept nowhere: {made}\nAppend this to the clients' file:\n\n")
    sys.stdout.write(section)


@app.command("snapshots")
def list_snapshots(snapshots: Snapshots = "", as_json: Json = False) -> None:
    """List the snapshots that are kept, and what differs from each to the current one."""
    from ragspine_assets.serving.kept_releases import kept_releases

    kept = kept_releases(_config(snapshots, "").snapshots_folder())
    if as_json:
        _print_json([asdict(one) for one in kept])
        return
    console = _console()
    if not kept:
        console.print("Nothing is published. `make run` publishes.")
        return
    rows = []
    for one in kept:
        manifest, differs = one.manifest, one.changes
        state = "current" if one.current else "held back" if one.held_back else ""
        changed = f"{len(differs.new)} new, {len(differs.changed)} changed, {len(differs.gone)} gone" if differs else ""
        if manifest is None:
            rows.append((one.name, state or "cannot be read", "", "", "", "", ""))
            continue
        labels = ", ".join([manifest.max_label, *manifest.levels])
        size = f"{manifest.counts['documents']:,} / {manifest.counts['chunks']:,}"
        signed = "yes" if one.signed else "no"
        rows.append((one.name, state, manifest.published_at[:19], labels, size, signed, changed))
    columns = (
        "snapshot",
        "",
        "published",
        "served up to",
        "documents / chunks",
        "signed",
        "from it to the current one",
    )
    _table(console, "", columns, rows)


@app.command()
def rollback(
    name: Annotated[
        str, typer.Argument(help="The snapshot, or how its name begins; the one before if not given.")
    ] = "",
    snapshots: Snapshots = "",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Make a kept snapshot current; what was current is held back until its content changes. Refused after a raised label."""
    from ragspine_assets.serving.kept_releases import roll_back
    from ragspine_assets.store import ChunkStore

    config = _config(snapshots, store)
    if not Path(config.store).is_file():
        raise typer.BadParameter(
            f"there is no store {config.store}, which knows the labels of now; name it with --store."
        )
    manifest = roll_back(
        ChunkStore(config.store, wait_s=config.wait_s),
        config.snapshots_folder(),
        name,
        max_label=config.snapshot_max_label,
        trusted_keys=config.trusted_key_files(),
    )
    if as_json:
        _print_json({"snapshot": manifest.name, "published_at": manifest.published_at})
    else:
        _console().print(_line(f"{manifest.name} of {manifest.published_at[:19]}Z is current now."))


@app.command("audit")
def audit_served(
    citation: Annotated[str, typer.Argument(help="A citation, a chunk without version, or a document.")],
    log: Annotated[str, typer.Option(metavar="FOLDER", help="The request log; RAGSPINE_REQUEST_LOG.")] = "",
    snapshots: Snapshots = "",
    as_json: Json = False,
) -> None:
    """Say who was served a passage or anything of a document, by the request log."""
    from ragspine_assets.service.request_log import served_to

    folder = log or _config(snapshots, "").request_log_folder()
    found = served_to(folder, citation)
    if as_json:
        _print_json([asdict(one) for one in found])
        return
    if not found:
        _console().print(_line(f"By the log {folder}, nobody was served {citation}."))
        return
    rows = [(one.client, one.times, one.first[:19], one.last[:19], ", ".join(one.routes)) for one in found]
    _table(_console(), "", ("client", "requests", "first", "last", "asked"), rows)


def main() -> None:
    """Run the command line; what goes wrong is said in one sentence, with what to do."""
    if sys.stdout.encoding and sys.stdout.encoding.casefold().replace("-", "") != "utf8":
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
    except BaseException as error:
        if is_cancel(error) or (isinstance(error, SystemExit) and isinstance(error.code, int | None)):
            raise
        if not isinstance(error, (RagspineError, ImportError)):
            raise SystemExit(
                f"ragspine: {type(error).__name__}. The message is withheld, since it may quote a document. "
                "Run again; if it stays, report the command and the type."
            ) from None
        raise SystemExit(f"ragspine: {error}") from None


def _become(module: str, *arguments: str, **options: str) -> None:
    """Go on as another program of ours: only those know Dagster, and a run is a process of its own."""
    given = [part for name, value in options.items() if value for part in (name, value)]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments, *given])  # noqa: S606


def _config(snapshots: str, store: str, **others: str) -> ServiceConfig:
    from dataclasses import replace

    config = ServiceConfig.from_environment()
    given = {"snapshots": snapshots, "store": store, **others}
    return replace(config, **{name: value for name, value in given.items() if value})


def _snapshot(snapshots: str) -> Snapshot:
    from ragspine_assets.serving import Snapshot

    config = _config(snapshots, "")
    return Snapshot.open(config.snapshots_folder(), trusted_keys=config.trusted_key_files())


def _highest(config: ServiceConfig, max_label: str) -> Sensitivity:
    """Return the highest label that may be shown of the store: what was asked for, but never above what is published."""
    from contextlib import suppress

    from ragspine_assets.retrieval.narrative_index import servable_label
    from ragspine_assets.serving import Snapshot, SnapshotError

    limits = [config.snapshot_max_label, max_label or config.snapshot_max_label]
    # Where nothing is published, the setting alone says what may be.
    with suppress(SnapshotError):
        limits.append(Snapshot.open(config.snapshots_folder(), verify=False).manifest.max_label)
    return min(map(servable_label, limits), key=lambda label: label.rank)


def _graph(snapshots: str, *, unverified: bool, max_label: str) -> DuckDBGraphStore:
    """Return the published graph; what a model asserted is not published, so with it the graph is the store's."""
    if not unverified:
        return _snapshot(snapshots).graph(max_label=max_label or None)
    from ragspine_assets.serving.servable_graph import servable_graph
    from ragspine_assets.store import ChunkStore, StoreError

    config = _config(snapshots, "")
    if not Path(config.store).is_file():
        raise StoreError(
            f"What a model asserted is in the store, and there is none at {config.store}. `make run` makes one."
        )
    with ChunkStore(config.store, wait_s=config.wait_s).connect() as connection:
        return servable_graph(connection, _highest(config, max_label))


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


# What a terminal would obey instead of showing.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text.translate(_CONTROLS), style=style)


def _table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, show_header=any(columns), pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_line(str(value)) for value in row))
    console.print(table)


def _query_terms(query: str, snapshot: Snapshot) -> set[str]:
    from typing import cast

    from ragspine_assets.index.analysis import AnalyzerName, make_analyzer

    analyzer = make_analyzer(cast("AnalyzerName", snapshot.manifest.analyzer))
    languages = list(snapshot.chunks.values["index_language"]) or [""]
    asked = analyzer.query(query, languages)
    return {term for one in asked for term in (*one.terms, *(variant for variant, _ in one.variants))}


def _highlighted(text: str, terms: set[str]) -> Text:
    """Return a text with the words of a query in bold; of scripts without spaces, the pairs of characters."""
    import regex

    from ragspine_assets.index.tokens import tokenize

    shown = _line(text)
    for word in regex.finditer(r"[\p{L}\p{M}\p{N}+#]+", shown.plain):
        tokens = tokenize(word.group())
        if len(tokens) == 1 and any(
            tokens[0] == term or (len(term) > 3 and tokens[0].startswith(term)) for term in terms
        ):
            shown.stylize("bold yellow", *word.span())
        elif len(tokens) > 1:
            for place in range(word.start(), word.end() - 1):
                if shown.plain[place : place + 2] in terms:
                    shown.stylize("bold yellow", place, place + 2)
    return shown


def _chunk_fields(chunk: StoredChunk) -> dict[str, object]:
    return {"citation": chunk.citation, **asdict(chunk)}


def _edge_fields(edge: GraphEdge) -> dict[str, str]:
    return {"src": edge.src, "src_type": edge.src_type, "type": edge.type, "dst": edge.dst, "dst_type": edge.dst_type}


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"


if __name__ == "__main__":
    main()
