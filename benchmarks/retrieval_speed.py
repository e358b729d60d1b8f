"""What a published snapshot costs: building, opening, asking; beside bm25s used directly, rank-bm25 and tantivy.

    python benchmarks/retrieval_speed.py [--chunks 10000 100000 1000000] [--queries 200] [--text ARCHIVE]

The chunks are generated English-like prose (words by Zipf's law, some 450 characters each), or cut from the text files of
an archive. Each system runs in a process of its own, is asked one query at a time for ten hits, and its memory is the
most that process held. What does not belong to a system is left out: ours returns snippets with citations, the others
return what they return. The exit code is 1 if a number is not what it has to be.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ragspine_assets.retrieval import tokenize
from ragspine_assets.serving import Snapshot, publish_snapshot
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.schema import CHUNK_COLUMNS

TOP_K = 10
CHUNKS_PER_DOCUMENT = 50
TOPICS = ("finance", "safety", "products", "people", "legal", "market", "sites", "training")
SYSTEMS = ("ours", "ours, filtered", "bm25s", "tantivy", "rank-bm25")
RANK_BM25_UP_TO = 100_000
_BATCH = 20_000


def words(size: int, rng: np.random.Generator) -> list[str]:
    """Return different words of one to five syllables."""
    syllables = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in ("", "n", "r", "s", "l")]
    found: dict[str, None] = {}
    while len(found) < size:
        lengths = rng.integers(1, 6, size)
        picks = rng.integers(0, len(syllables), (size, 5))
        for length, pick in zip(lengths.tolist(), picks.tolist(), strict=True):
            found["".join(syllables[one] for one in pick[:length])] = None
    return list(found)[:size]


def prose(chunks: int, seed: int = 7) -> Iterator[str]:
    """Yield texts of about 75 words each."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array(words(200_000, rng), dtype=object)
    weights = 1 / (np.arange(len(vocabulary)) + 2.7) ** 1.07
    cumulative = np.cumsum(weights / weights.sum())
    for first in range(0, chunks, _BATCH):
        size = min(_BATCH, chunks - first)
        lengths = rng.integers(60, 90, size)
        drawn = vocabulary[np.searchsorted(cumulative, rng.random(int(lengths.sum())))]
        places = np.concatenate(([0], np.cumsum(lengths)))
        for start, end in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
            yield " ".join(drawn[start:end]) + "."


def archived(archive: Path, chunks: int) -> Iterator[str]:
    """Yield passages of about 450 characters from the text files of an archive, from the beginning again if need be."""
    given = 0
    while given < chunks:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                text = file.read().decode("utf-8", "replace") if file else ""
                passage: list[str] = []
                for word in text.split():
                    passage.append(word)
                    if sum(map(len, passage)) + len(passage) > 450:
                        yield " ".join(passage)
                        passage = []
                        given += 1
                        if given >= chunks:
                            return


def fill(store: ChunkStore, texts: Iterator[str]) -> None:
    """Put texts into a store as active chunks of documents."""
    with store.connect() as connection:
        position = 0
        while batch := [text for text, _ in zip(texts, range(_BATCH), strict=False)]:
            numbers = range(position, position + len(batch))
            position += len(batch)
            documents = [n // CHUNKS_PER_DOCUMENT for n in numbers]
            rows = {
                "chunk_id": [f"d{d}.txt#c{n % CHUNKS_PER_DOCUMENT}" for d, n in zip(documents, numbers, strict=True)],
                "doc_id": [f"d{d}.txt" for d in documents],
                "seq": [n % CHUNKS_PER_DOCUMENT for n in numbers],
                "text": batch,
                "source_locator": [
                    f"d{d}.txt#para{n % CHUNKS_PER_DOCUMENT + 1}" for d, n in zip(documents, numbers, strict=True)
                ],
                "title": [f"Document {d}" for d in documents],
                "topic": [TOPICS[d % len(TOPICS)] for d in documents],
                "language": ["en"] * len(batch),
                "sensitivity": [("PUBLIC", "INTERNAL", "CONFIDENTIAL")[d % 3] for d in documents],
            }
            for name in CHUNK_COLUMNS:
                if name not in rows:
                    rows[name] = ([""] if name in _TEXTS else [0]) * len(batch)
            table = pa.table({name: rows[name] for name in CHUNK_COLUMNS})
            connection.register("_rows", table)
            names = ", ".join(CHUNK_COLUMNS)
            connection.execute(
                f"INSERT INTO narrative_chunk ({names}, ingested_at, version, active) "
                f"SELECT {names}, now()::TIMESTAMP, 1, TRUE FROM _rows"
            )
            connection.unregister("_rows")


_TEXTS = ("geography", "entity", "period", "parent_id", "heading", "window_text", "parent_locator", "valid_as_of")


def questions(texts: list[str], count: int, seed: int = 3) -> list[str]:
    """Return queries of three to eight words, each from one passage: common words and rare ones as they come."""
    rng = np.random.default_rng(seed)
    asked = []
    for _ in range(count):
        passage = texts[int(rng.integers(len(texts)))].split()
        length = min(int(rng.integers(3, 9)), len(passage))
        asked.append(" ".join(passage[int(one)] for one in rng.choice(len(passage), length, replace=False)))
    return asked


def _texts(folder: Path) -> Iterator[str]:
    """Yield the texts of the store in the order of the snapshot."""
    chunks = Snapshot.open(folder / "snapshots").chunks
    return iter(chunks.texts())


def build(system: str, folder: Path) -> None:
    """Build one system's index from the texts."""
    if system == "ours":
        publish_snapshot(ChunkStore(folder / "store.duckdb"), folder / "snapshots")
    elif system == "bm25s":
        import bm25s

        index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        index.index([tokenize(text) for text in _texts(folder)], show_progress=False)
        index.save(folder / "bm25s", show_progress=False)
    elif system == "tantivy":
        tantivy = importlib.import_module("tantivy")
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=True)
        (folder / "tantivy").mkdir()
        index = tantivy.Index(builder.build(), path=str(folder / "tantivy"))
        writer = index.writer(256_000_000)
        for text in _texts(folder):
            writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()


def opened(system: str, folder: Path) -> Callable[[str], object]:
    """Open one system and return how it is asked."""
    if system.startswith("ours"):
        retriever = Snapshot.open(folder / "snapshots").retriever()
        filters = {"topic": "safety"} if system == "ours, filtered" else None
        return lambda query: retriever.retrieve(query, filters=filters, top_k=TOP_K)
    if system == "bm25s":
        import bm25s

        index = bm25s.BM25.load(folder / "bm25s", mmap=True, show_progress=False)
        known = index.vocab_dict
        return lambda query: index.retrieve(
            [[token for token in tokenize(query) if token in known]], k=TOP_K, show_progress=False
        )
    if system == "tantivy":
        tantivy = importlib.import_module("tantivy")
        index = tantivy.Index.open(str(folder / "tantivy"))
        index.reload()
        searcher = index.searcher()

        def ask(query: str) -> list[object]:
            hits = searcher.search(index.parse_query(query, ["text"]), TOP_K).hits
            return [searcher.doc(address)["text"] for _, address in hits]

        return ask
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([tokenize(text) for text in _texts(folder)])
    return lambda query: np.argsort(-index.get_scores(tokenize(query)), kind="stable")[:TOP_K]


def measure(system: str, folder: Path, queries: list[str]) -> dict[str, float]:
    """Open a system, ask it, and say what it took; in a process of its own."""
    if system == "rank-bm25":
        queries = queries[:20]
    started = time.perf_counter()
    ask = opened(system, folder)
    took = {"open_ms": (time.perf_counter() - started) * 1e3}
    for query in queries[:20]:
        ask(query)
    seconds = []
    for query in queries:
        started = time.perf_counter()
        ask(query)
        seconds.append(time.perf_counter() - started)
    took["p50_ms"] = statistics.median(seconds) * 1e3
    took["p95_ms"] = sorted(seconds)[int(len(seconds) * 0.95)] * 1e3
    took["per_s"] = len(seconds) / sum(seconds)
    took["memory_mb"] = _most_memory_mb()
    return took


def _most_memory_mb() -> float:
    """Return the most memory this process held, shared pages of mapped files among it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def _in_process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    return json.loads(done.stdout.strip().splitlines()[-1])


def _size_mb(path: Path) -> float:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6


def run(chunks: int, count: int, archive: Path | None) -> dict[str, dict[str, float]]:
    """Measure every system on one number of chunks and print a table."""
    folder = Path(tempfile.mkdtemp(prefix="ragspine-speed-"))
    results: dict[str, dict[str, float]] = {}
    try:
        store = ChunkStore(folder / "store.duckdb")
        fill(store, archived(archive, chunks) if archive else prose(chunks))
        print(
            f"\n{chunks:,} chunks\n{'':16}{'build s':>9}{'size MB':>9}{'open ms':>9}{'p50 ms':>9}{'p95 ms':>9}{'per s':>9}{'MB':>9}"
        )
        for system in SYSTEMS:
            module = {"rank-bm25": "rank_bm25"}.get(system, system)
            if not system.startswith("ours") and importlib.util.find_spec(module) is None:
                print(f"{system:16} not installed")
                continue
            if system == "rank-bm25" and chunks > RANK_BM25_UP_TO:
                continue
            row = {"build_s": 0.0, "size_mb": 0.0}
            if system in {"ours", "bm25s", "tantivy"}:
                row["build_s"] = _in_process("--build", system, str(folder))["seconds"]
                row["size_mb"] = _size_mb(folder / {"ours": "snapshots"}.get(system, system))
            if system == "ours":
                asked = questions([text for text, _ in zip(_texts(folder), range(100_000), strict=False)], count)
                (folder / "queries.json").write_text(json.dumps(asked))
            row |= _in_process("--measure", system, str(folder))
            results[system] = row
            print(
                f"{system:16}{row['build_s']:9.1f}{row['size_mb']:9.0f}{row['open_ms']:9.1f}{row['p50_ms']:9.2f}"
                f"{row['p95_ms']:9.2f}{row['per_s']:9.0f}{row['memory_mb']:9.0f}"
            )
        with store.connect() as connection:
            connection.execute(
                "UPDATE narrative_chunk SET version = 2, text = text || ' changed' WHERE doc_id = 'd1.txt'"
            )
        again = _in_process("--build", "ours", str(folder))["seconds"]
        unchanged = _in_process("--build", "ours", str(folder))["seconds"]
        results["after one changed document"] = {"build_s": again}
        print(f"published again after one changed document: {again:.1f} s, after none: {unchanged:.1f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def failures(chunks: int, results: dict[str, dict[str, float]]) -> list[str]:
    """Return which numbers are not what they have to be."""
    ours, filtered = results["ours"], results["ours, filtered"]
    wanted: list[tuple[str, bool]] = []
    if chunks == 100_000:
        wanted += [("open under 300 ms", ours["open_ms"] < 300)]
        wanted += [("publish under 5 s", results["after one changed document"]["build_s"] < 5)]
        if "bm25s" in results:
            slower = max(ours["p50_ms"], filtered["p50_ms"])
            wanted += [("at most twice bm25s", slower <= 2 * results["bm25s"]["p50_ms"])]
        if "rank-bm25" in results:
            wanted += [("200 times rank-bm25", 200 * ours["p50_ms"] <= results["rank-bm25"]["p50_ms"])]
    if chunks == 1_000_000:
        wanted += [("open under 0.5 s", ours["open_ms"] < 500), ("p50 under 6 ms", ours["p50_ms"] < 6)]
        wanted += [("under 1.5 GB", ours["memory_mb"] < 1536)]
    return [name for name, holds in wanted if not holds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--build", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        started = time.perf_counter()
        build(options.build[0], Path(options.build[1]))
        print(json.dumps({"seconds": time.perf_counter() - started}))
        return 0
    if options.measure:
        folder = Path(options.measure[1])
        print(json.dumps(measure(options.measure[0], folder, json.loads((folder / "queries.json").read_text()))))
        return 0
    missed = []
    for chunks in options.chunks:
        missed += [
            f"{chunks:,} chunks: {what}" for what in failures(chunks, run(chunks, options.queries, options.text))
        ]
    for what in missed:
        print(f"MISSED {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
