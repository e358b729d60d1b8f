"""How chunks read, beside other libraries' splitters on the same texts with the same size (SPEC 2.10).

    python benchmarks/chunk_shape.py [FOLDER] [--megabytes 4]

FOLDER holds text files (``.md`` is Markdown); without one, the demo's. Sizes are 480 code points and no overlap. Printed per
splitter: the share of chunks that end within a sentence, that are nothing but headings, and that have fewer than 40 letters;
the share of table chunks that show no header row; and megabytes of UTF-8 per second of processor time. A chunk ends within
a sentence where neither its last sign ends one nor the text goes on with a new paragraph, heading, list item or table row.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragspine_assets.chunking import DocumentMeta, make_chunker
from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.normalise import normalise_text

DEMO = Path(__file__).resolve().parents[1] / "data" / "raw"
SIZE = 480
TEXTS = {".txt", ".md", ".rst", ".text"}
OURS = ("none", "layout", "parent_child", "sentence_window", "structure")
_END = re.compile(r"[.!?…。！？:：;；][\"'»”’)\]」』*_`]*$")
_GOES_ON_NEW = re.compile(r"\s*\n\s*(?:\n|#|[-*+•|>]|\d{1,3}[.)]\s|[A-Z][A-Z ]{2,}\n|\Z)|\s*\Z")
_HEADING = re.compile(r"#{1,6} .*|[A-Z][A-Z0-9 ,()-]{2,60}|\d+(?:\.\d+)+\.? \S.{0,60}")
_ROW = re.compile(r"\|.*\|")
_RULE = re.compile(r"\|[\s:|-]+\|")


@dataclass(frozen=True)
class Piece:
    """A chunk: its text, and what a reader is shown around it."""

    text: str
    shown: str


Split = Callable[[str, bool], Sequence[Piece]]


def ours(spec: str) -> Split:
    chunker = make_chunker("default" if spec == "none" else spec)
    assert chunker is not None

    def split(text: str, markdown: bool) -> list[Piece]:
        meta = DocumentMeta("bench", markup="markdown" if markdown else "plain")
        found = chunker.chunk(text, meta, max_chars=SIZE, overlap_chars=0)
        return [Piece(chunk.text, chunk.window_text or chunk.text) for chunk in found]

    return split


def peers() -> Iterator[tuple[str, Split | None]]:
    def of_texts(cut: Callable[[str], Sequence[str]]) -> Split:
        return lambda text, _: [Piece(one, one) for one in cut(text)]

    def semchunk() -> Split:
        return of_texts(importlib.import_module("semchunk").chunkerify(len, SIZE, memoize=False))

    def chonkie(kind: str) -> Split:
        chunker = getattr(importlib.import_module("chonkie"), kind)
        options = {"chunk_overlap": 0} if kind == "SentenceChunker" else {}
        made = chunker(tokenizer="character", chunk_size=SIZE, **options)
        return of_texts(lambda text: [one.text for one in made.chunk(text)])

    def langchain() -> Split:
        library = importlib.import_module("langchain_text_splitters")
        return of_texts(library.RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=0).split_text)

    def llama_index() -> Split:
        library = importlib.import_module("llama_index.core.node_parser")
        splitter = library.SentenceSplitter(chunk_size=SIZE, chunk_overlap=0, tokenizer=list)
        return of_texts(splitter.split_text)

    for name, make in (
        ("semchunk", semchunk),
        ("chonkie RecursiveChunker", lambda: chonkie("RecursiveChunker")),
        ("chonkie SentenceChunker", lambda: chonkie("SentenceChunker")),
        ("LangChain RecursiveCharacter", langchain),
        ("LlamaIndex SentenceSplitter", llama_index),
    ):
        try:
            yield name, make()
        except ImportError:
            yield name, None


def texts_of(folder: Path, most: int) -> list[tuple[str, bool]]:
    """Return texts as they are chunked, each with whether it is Markdown."""
    found: list[tuple[str, bool]] = []
    size = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TEXTS):
        data = path.read_bytes()
        if b"\0" in data[:4096] or size > most:
            continue
        try:
            text = normalise_text(decode_text(data).text)
        except UndecodableText:
            continue
        found.append((text, path.suffix == ".md"))
        size += len(data)
    return found


def row(name: str, split: Split | None, texts: Sequence[tuple[str, bool]]) -> None:
    if split is None:
        print(f"{name:<30} not installed")
        return
    started = time.process_time()
    cut = [split(text, markdown) for text, markdown in texts]
    taken = time.process_time() - started
    chunks = within = headings = tiny = tables = headless = 0
    for (text, _), pieces in zip(texts, cut, strict=True):
        at = 0
        # Splitters differ in the white space they keep: what lies where is told by the other signs.
        places = [place for place, sign in enumerate(text) if not sign.isspace()]
        letters = "".join(text[place] for place in places)
        for piece in pieces:
            body = piece.text.strip()
            if not body:
                continue
            chunks += 1
            own = "".join(body.split())
            place = letters.find(own, at)
            at = max(place, at)
            behind = places[place + len(own) - 1] + 1 if place >= 0 else -1
            within += not _END.search(body) and not (place >= 0 and _GOES_ON_NEW.match(text, behind))
            lines = [line for line in body.split("\n") if line.strip()]
            headings += all(_HEADING.fullmatch(line.strip()) for line in lines)
            tiny += sum(map(str.isalnum, body)) < 40
            if _ROW.fullmatch(lines[0].strip()) and _ROW.fullmatch(lines[-1].strip()):
                tables += 1
                headless += not any(_RULE.fullmatch(line.strip()) for line in piece.shown.split("\n"))
    megabytes = sum(len(text.encode()) for text, _ in texts) / 1e6
    shares = (within / chunks, headings / chunks, tiny / chunks, headless / max(tables, 1))
    print(
        f"{name:<30} {chunks:>8} " + " ".join(f"{share:>13.3f}" for share in shares) + f" {megabytes / taken:>8.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", nargs="?", type=Path, default=DEMO)
    parser.add_argument("--megabytes", type=float, default=4.0)
    arguments = parser.parse_args()
    texts = texts_of(arguments.folder, int(arguments.megabytes * 1e6))
    columns = ("within a", "headings", "fewer than", "rows without")
    under = ("sentence", "alone", "40 letters", "their header")
    print(f"{'':<30} {'chunks':>8} " + " ".join(f"{name:>13}" for name in columns) + f" {'MB/s':>8}")
    print(f"{'':<30} {'':>8} " + " ".join(f"{name:>13}" for name in under))
    for spec in OURS:
        row(spec, ours(spec), texts)
    for name, split in peers():
        row(name, split, texts)


if __name__ == "__main__":
    main()
