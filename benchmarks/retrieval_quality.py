"""How well the settings find: nDCG@10 on small public collections, beside other libraries on the same texts.

    python benchmarks/retrieval_quality.py [FOLDER]

FOLDER holds one archive per collection (``NAME.tar.xz`` with ``docs.jsonl``, ``queries.jsonl`` and ``qrels.tsv``).
Title and text are indexed as one; the first 1,000 queries are asked; the gain of a document is its judgment, the ideal order
that of the judgments. ``plain`` reads words as they are, ``default`` stems and spellings; ``mistyped`` is the default asked
with one letter wrong in a fifth of the longer words. rag-spine's are its tokens under our BM25; the others are as they come,
without stop words or stems; rank-bm25 is left out where it takes minutes. The exit code is 1 if a number is below what it has
to be.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import random
import re
import sqlite3
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragspine_assets.index.analysis import AnalyzerName
from ragspine_assets.index.lexical import LexicalIndex, best
from ragspine_assets.retrieval import NarrativeIndex
from ragspine_assets.store import StoredChunk

FOLDER = Path(__file__).resolve().parents[1] / ".." / "shared" / "corpus" / "ir"
QUERIES = 1_000
DEPTH = 10
SMALL = 3_000
REQUIRED = {
    "cranfield": (0.349, 0.373),
    "xquad_zh": (0.960, 0.960),
    "jsquad_ja": (0.925, 0.925),
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


def ours(collection: Collection, analyzer: AnalyzerName) -> Callable[[str], list[str]]:
    index = NarrativeIndex(
        (StoredChunk(doc_id, doc_id, 0, text, doc_id, 1, 1) for doc_id, text in collection.documents.items()),
        analyzer=analyzer,
    )
    return lambda query: [result.chunk.doc_id for result in index.retrieve(query, top_k=DEPTH)]


def mistyped(collection: Collection) -> Collection:
    """Return the collection with one letter wrong in a fifth of the longer words of its questions."""
    chance = random.Random(7)

    def wrong(found: re.Match[str]) -> str:
        word = found[0]
        if chance.random() > 0.2:
            return word
        at = chance.randrange(1, len(word))
        letter = chance.choice("abcdefghijklmnopqrstuvwxyz")
        kinds = (word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1 :])
        return chance.choice(kinds)

    queries = {name: re.sub(r"[^\W\d_]{4,}", wrong, text) for name, text in collection.queries.items()}
    return Collection(collection.documents, queries, collection.judgments)


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


def bm25s(collection: Collection) -> Callable[[str], list[str]]:
    library = importlib.import_module("bm25s")
    names = list(collection.documents)
    index = library.BM25()
    tokens = library.tokenize(list(collection.documents.values()), stopwords=None, show_progress=False)
    index.index(tokens, show_progress=False)

    def search(query: str) -> list[str]:
        asked = library.tokenize([query], stopwords=None, show_progress=False)
        found, _ = index.retrieve(asked, k=DEPTH, show_progress=False)
        return [names[int(one)] for one in found[0]]

    return search


def fts5(collection: Collection) -> Callable[[str], list[str]]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(name UNINDEXED, text)")
    database.executemany("INSERT INTO texts VALUES (?, ?)", collection.documents.items())

    def search(query: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        sql = "SELECT name FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?"
        return [name for (name,) in database.execute(sql, (words, DEPTH))] if words else []

    return search


def tantivy(collection: Collection) -> Callable[[str], list[str]]:
    library = importlib.import_module("tantivy")
    builder = library.SchemaBuilder()
    builder.add_text_field("name", stored=True, tokenizer_name="raw")
    builder.add_text_field("text")
    index = library.Index(builder.build())
    writer = index.writer()
    for name, text in collection.documents.items():
        writer.add_document(library.Document(name=[name], text=[text]))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        parsed, _ = index.parse_query_lenient(" ".join(re.findall(r"\w+", query)), ["text"])
        return [searcher.doc(at)["name"][0] for _, at in searcher.search(parsed, DEPTH).hits]

    return search


def rank_bm25(collection: Collection) -> Callable[[str], list[str]]:
    library = importlib.import_module("rank_bm25")
    if len(collection.documents) > SMALL:
        raise ImportError
    names = np.array(list(collection.documents))
    index = library.BM25Okapi([text.lower().split() for text in collection.documents.values()])
    return lambda query: names[np.argsort(-index.get_scores(query.lower().split()), kind="stable")[:DEPTH]].tolist()


PEERS: dict[str, Callable[[Collection], Callable[[str], list[str]]]] = {
    "rag-spine": theirs, "bm25s": bm25s, "FTS5": fts5, "tantivy": tantivy, "rank-bm25": rank_bm25,
}  # fmt: skip


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    if not folder.is_dir():
        print(f"no collections in {folder}; name the folder that holds them")
        return 2
    columns = ("plain", "default", "least", "mistyped", *PEERS)
    print(f"{'nDCG@10':12}{'documents':>10}{'queries':>8}" + "".join(f"{name:>10}" for name in columns))
    failed = False
    for name, (least, least_by_default) in REQUIRED.items():
        collection = read_collection(folder / f"{name}.tar.xz")
        plain = mean_ndcg(collection, ours(collection, "plain"))
        search = ours(collection, "default")
        default, wrong = mean_ndcg(collection, search), mean_ndcg(mistyped(collection), search)
        failed |= plain < least or default < least_by_default
        cells = [f"{plain:.4f}", f"{default:.4f}", f"{least_by_default:.3f}", f"{wrong:.4f}"]
        for make in PEERS.values():
            try:
                cells.append(f"{mean_ndcg(collection, make(collection)):.4f}")
            except ImportError:
                cells.append("-")
        print(
            f"{name:12}{len(collection.documents):>10,}{len(collection.queries):>8,}"
            + "".join(f"{cell:>10}" for cell in cells),
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
