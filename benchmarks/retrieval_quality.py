"""How well the defaults find: nDCG@10 on small public collections, beside rag-spine's tokens.

    python benchmarks/retrieval_quality.py [FOLDER]

FOLDER holds one archive per collection (``NAME.tar.xz`` with ``docs.jsonl``, ``queries.jsonl`` and ``qrels.tsv``).
Title and text are indexed; the first 1,000 queries are asked; the gain of a document is its judgment, the ideal order
that of the judgments. The exit code is 1 if a number is below what it has to be.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragspine_assets.index.lexical import LexicalIndex, best
from ragspine_assets.retrieval import NarrativeIndex
from ragspine_assets.store import StoredChunk

FOLDER = Path(__file__).resolve().parents[1] / ".." / "shared" / "corpus" / "ir"
QUERIES = 1_000
DEPTH = 10
REQUIRED = {
    "cranfield": (0.349, 0.373),
    "xquad_zh": (0.960, None),
    "jsquad_ja": (0.925, None),
    "squad_it": (0.836, 0.863),
}


@dataclass(frozen=True)
class Collection:
    """Documents, questions and which document answers which question how well."""

    documents: dict[str, str]
    queries: dict[str, str]
    judgments: dict[str, dict[str, int]]


def read_collection(archive: Path) -> Collection:
    """Read an archive without unpacking it."""
    with tarfile.open(archive) as tar:
        files = {Path(member.name).name: tar.extractfile(member) for member in tar if member.isfile()}
        lines = {
            name: io.TextIOWrapper(file, encoding="utf-8").read().splitlines() for name, file in files.items() if file
        }
    documents = {row["id"]: f"{row['title']}\n{row['text']}" for row in map(json.loads, lines["docs.jsonl"])}
    queries = {row["id"]: row["text"] for row in map(json.loads, lines["queries.jsonl"][:QUERIES])}
    judgments: dict[str, dict[str, int]] = {}
    for line in lines["qrels.tsv"][1:]:
        query, document, gain = line.split("\t")
        judgments.setdefault(query, {})[document] = int(gain)
    return Collection(documents, queries, judgments)


def mean_ndcg(collection: Collection, search: Callable[[str], list[str]]) -> float:
    """Return the mean nDCG@10 over the queries that have a relevant document."""
    scores = []
    for query_id, query in collection.queries.items():
        gains = collection.judgments.get(query_id, {})
        ideal = discounted(sorted(gains.values(), reverse=True))
        if ideal > 0:
            scores.append(discounted([gains.get(document, 0) for document in search(query)]) / ideal)
    return sum(scores) / len(scores)


def discounted(gains: list[int]) -> float:
    return sum(max(gain, 0) / math.log2(rank + 1) for rank, gain in enumerate(gains[:DEPTH], start=1))


def ours(collection: Collection, *, stemmed: bool) -> Callable[[str], list[str]]:
    index = NarrativeIndex(
        (StoredChunk(doc_id, doc_id, 0, text, doc_id, 1, 1) for doc_id, text in collection.documents.items()),
        analyzer="stemmed" if stemmed else "default",
    )
    return lambda query: [result.chunk.doc_id for result in index.retrieve(query, top_k=DEPTH)]


def ascii_and_han(text: str) -> list[str]:
    """What rag-spine takes for tokens: ASCII words, and Han characters with their pairs."""
    tokens: list[str] = []
    for run in re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]+", text.lower()):
        tokens += [run] if run.isascii() else [*run, *(run[at : at + 2] for at in range(len(run) - 1))]
    return tokens


def theirs(collection: Collection) -> Callable[[str], list[str]]:
    names = np.array(list(collection.documents))
    index = LexicalIndex(map(ascii_and_han, collection.documents.values()))
    return lambda query: names[best(index.scores(ascii_and_han(query)), DEPTH)].tolist()


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.is_dir():
        print(f"no collections in {folder}; name the folder that holds them")
        return 2
    print("nDCG@10      documents queries  rag-spine  default  least  stemmed  least  seconds")
    failed = False
    for name, (least, least_stemmed) in REQUIRED.items():
        started = time.perf_counter()
        collection = read_collection(folder / f"{name}.tar.xz")
        before = mean_ndcg(collection, theirs(collection))
        plain = mean_ndcg(collection, ours(collection, stemmed=False))
        stemmed = mean_ndcg(collection, ours(collection, stemmed=True))
        failed |= plain < least or (least_stemmed is not None and stemmed < least_stemmed)
        print(
            f"{name:12} {len(collection.documents):9,} {len(collection.queries):7,}  {before:9.4f}",
            f" {plain:7.4f}  {least:5.3f}  {stemmed:7.4f}  {least_stemmed or '':>5}",
            f" {time.perf_counter() - started:7.1f}",
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
