"""The whole job over a folder: first run, run without a change, run with one file changed.

    python benchmarks/pipeline.py [FOLDER] [--times 1,10]

FOLDER is copied to a temporary place first; without one, 10 MB of prose are made up. Printed are wall time, CPU time of
all processes, the peak memory of the largest process, and the share of each part. The last table compares chunking and
storing alone with rag-spine, where it can be imported.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = """
import json, os, re, resource, sys, time
started = time.perf_counter(), time.process_time()
from dagster import DagsterInstance
from ragspine_assets.config import ServiceConfig
from ragspine_assets.defs import build_defs
from ragspine_assets.defs.process import settle
settle()  # as `make run` and the code location do
imported = time.perf_counter() - started[0]
source, store, home = sys.argv[1:]
os.makedirs(home, exist_ok=True)
config = ServiceConfig(source=source, store=store, profile="", facts="", snapshots=home + "/snapshots")
with DagsterInstance.local_temp(home, overrides={"telemetry": {"enabled": False}}) as instance:
    result = build_defs(config).resolve_job_def("refresh").execute_in_process(
        instance=instance, run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    )
    steps = {}
    for event in result.all_events:
        if event.is_step_success:
            steps[event.step_key] = event.step_success_data.duration_ms / 1000
    parts = {}
    for event in result.get_asset_materialization_events():
        text = event.materialization.metadata.get("seconds")
        for name, value in re.findall(r"(\\w+) ([0-9.]+) s", text.value if text else ""):
            parts[f"{event.asset_key.to_user_string()} {name}"] = float(value)
checks = sum(v for k, v in steps.items() if k.endswith("_checks"))
children = resource.getrusage(resource.RUSAGE_CHILDREN)
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "wall": time.perf_counter() - started[0],
    "cpu": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
    "peak_mb": own.ru_maxrss / 1024, "worker_mb": children.ru_maxrss / 1024,
    "importing": imported, "assets": sum(steps.values()) - checks, "checks": checks,
    "dagster": time.perf_counter() - started[0] - imported - sum(steps.values()),
    "parts": parts, "success": result.success,
}))
"""


def made_up(folder: Path, megabytes: int = 10, bytes_each: int = 5000, heading_every: int = 0) -> None:
    """Write documents of prose; with headings so many bytes apart, as Markdown."""
    random.seed(7)
    words = [
        "turbine",
        "river",
        "contract",
        "seabed",
        "the",
        "of",
        "and",
        "a",
        "in",
        "blade",
        "harbour",
        "review",
        "cable",
    ]
    for number in range(megabytes * 1_000_000 // bytes_each):
        lines, size, section = [], 0, heading_every
        while size < bytes_each:
            if heading_every and section >= heading_every:
                line, section = "# " + " ".join(random.choices(words, k=4)), 0
            else:
                line = " ".join(random.choices(words, k=random.randint(8, 90))).capitalize() + "."
            lines.append(line)
            size += len(line) + 2
            section += len(line) + 2
        path = folder / f"{number % 50}" / f"{number}.{'md' if heading_every else 'txt'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(lines))


def run(source: Path, store: Path, home: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(source), str(store), str(home)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def whole_job(folder: Path | None, times: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "source")
        if folder is None:
            source.mkdir()
            made_up(source, 10 * times)
        else:
            for copy in range(times):
                shutil.copytree(folder, source / f"copy{copy}")
        files = [path for path in source.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        print(f"\n{len(files):,} files, {size / 1e6:.1f} MB, {os.cpu_count()} processors")
        print(f"{'run':<12}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}{'worker MB':>11}{'import s':>10}{'Dagster s':>11}"
              f"{'assets s':>10}{'checks s':>10}")  # fmt: skip
        store, home = Path(temporary, "state", "store.duckdb"), Path(temporary, "home")
        for name in ("first", "no change", "one file"):
            if name == "one file":
                text = next(path for path in files if path.suffix == ".txt")
                text.write_text(text.read_text() + "\nOne more line.\n")
            r = run(source, store, home)
            print(f"{name:<12}{r['wall']:>8.1f}{r['cpu']:>8.1f}{r['peak_mb']:>9.0f}{r['worker_mb']:>11.0f}"
                  f"{r['importing']:>10.1f}{r['dagster']:>11.1f}{r['assets']:>10.1f}{r['checks']:>10.1f}")  # fmt: skip
            parts = r["parts"]
            assert isinstance(parts, dict)
            print("            " + ", ".join(f"{part} {value:.1f}" for part, value in parts.items() if value >= 0.05))


def two_stages(chunker: str, heading_every: int) -> None:
    """Time chunking and storing of 10 MB in documents of 5 KB, here and in rag-spine."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "texts")
        folder.mkdir()
        made_up(folder, heading_every=heading_every)
        texts = {path.name: path.read_text() for path in sorted(folder.rglob("*.*"))}
        few = dict(list(texts.items())[:20])
        warming = Path(temporary, "warming")  # the first time only to have everything imported
        warming.mkdir()
        _ours(few, warming, chunker)
        _rag_spine(few, warming, chunker)
        ours = _ours(texts, Path(temporary), chunker)
        theirs = _rag_spine(texts, Path(temporary), chunker)
        ratio = f"{theirs / ours:.1f}" if theirs else "rag-spine is not installed"
        kind = "with sections" if heading_every else "plain prose"
        print(f"{chunker:<14}{kind:<15}{ours:>8.2f}{theirs or float('nan'):>12.2f}   {ratio}")


def _ours(texts: dict[str, str], folder: Path, chunker: str) -> float:
    import pyarrow as pa

    from ragspine_assets.chunking import make_chunker
    from ragspine_assets.pipeline import activate_staged, stage_chunks
    from ragspine_assets.store import ChunkStore
    from ragspine_assets.store.database import registered

    store = ChunkStore(folder / "ours.duckdb")
    with store.connect() as connection:
        rows = pa.table({"doc_id": list(texts), "text": list(texts.values())})
        with registered(connection, _texts=rows):
            connection.execute(
                "INSERT INTO document (doc_id, status, sensitivity) SELECT doc_id, 'ingested', 'INTERNAL' FROM _texts"
            )
            connection.execute("INSERT INTO document_text (doc_id, text) SELECT doc_id, text FROM _texts")
    selected = make_chunker(chunker)
    started = time.perf_counter()
    with store:
        stage_chunks(store, selected)
        activate_staged(store)
    return time.perf_counter() - started


def _rag_spine(texts: dict[str, str], folder: Path, chunker: str) -> float | None:
    try:
        from ragspine.retrieval.chunking.chunk_store import ChunkStore  # pyright: ignore[reportMissingImports]
        from ragspine.retrieval.chunking.chunker import make_chunker  # pyright: ignore[reportMissingImports]
        from ragspine.retrieval.chunking.chunking import (  # pyright: ignore[reportMissingImports]
            DocumentMeta,
            chunk_document,
        )
    except ImportError:
        return None
    store = ChunkStore(folder / "theirs.db")
    store.init_schema()
    selected = make_chunker(chunker)
    started = time.perf_counter()
    for doc_id, text in texts.items():
        meta = DocumentMeta(doc_id=doc_id)
        store.replace_doc_chunks(doc_id, selected.chunk(text, meta) if selected else chunk_document(text, meta))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--times", default="1")
    arguments = parser.parse_args()
    for times in arguments.times.split(","):
        whole_job(arguments.folder, int(times))
    print("\nchunking and storing 10 MB in documents of 5 KB, start excluded")
    print(f"{'chunker':<14}{'documents':<15}{'here s':>8}{'rag-spine s':>12}   times faster")
    for chunker in ("none", "parent_child"):
        for heading_every in (0, 900):
            two_stages(chunker, heading_every)
    print(f"\npeak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
