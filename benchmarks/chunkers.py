"""How fast chunkers are, and that doubling a text doubles the time (SPEC 2.3, 2.4).

    python benchmarks/chunkers.py [--megabytes 8]

Speed is megabytes of UTF-8 per second of processor time in one thread, the best of three, chunks of 480 code points made
as objects. The peers do the same in the same run, where they are installed. The exit code is 1 if a built-in chunker is
slower than it has to be, or if doubling a text, up to the given size, takes more than 2.4 times the time on average.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from ragspine_assets.chunking import Chunker, DocumentMeta, make_chunker
from ragspine_assets.chunking.enforcement import DocumentInput, chunk_batches

MAX_CHARS = 480
OVERLAP_CHARS = 80
LIMIT = 2.4
REQUIRED = {
    ("default", "prose"): 30.0,
    ("default", "80-character lines"): 30.0,
    ("parent_child", "prose"): 20.0,
    ("parent_child", "80-character lines"): 20.0,
    ("parent_child", "Markdown"): 10.0,
    ("sentence_window", "prose"): 10.0,
    ("sentence_window", "80-character lines"): 10.0,
}
SPECS = ("default", "layout", "laws", "qa", "book", "parent_child", "sentence_window")
WORDS = re.findall(
    r"\w+",
    "the plant in north delivered fewer parts than planned while demand for pumps and valves rose again this year so "
    "board asked each unit to review its suppliers before winter since stocks cover eight weeks of work at most",
)

Cut = Callable[[str], object]


def sentences(seed: int) -> Iterator[str]:
    choose = random.Random(seed)
    while True:
        yield " ".join(choose.choices(WORDS, k=choose.randint(6, 22))).capitalize() + "."


def prose(size: int) -> str:
    """Paragraphs of three to eight sentences, one per line."""
    made, choose, lines, length = sentences(1), random.Random(2), [], 0
    while length < size:
        lines.append(" ".join(next(made) for _ in range(choose.randint(3, 8))))
        length += len(lines[-1]) + 2
    return "\n\n".join(lines)[:size]


def wrapped(size: int) -> str:
    """The same words in lines of at most 80 characters."""
    lines: list[str] = []
    for paragraph in prose(size).split("\n\n"):
        line = ""
        for word in paragraph.split():
            if len(line) + len(word) >= 80:
                lines.append(line)
                line = ""
            line = f"{line} {word}".strip()
        lines.extend((line, ""))
    return "\n".join(lines)[:size]


def markdown(size: int) -> str:
    """Wrapped prose under headings, with lists and code."""
    blocks = wrapped(size).split("\n\n")
    for n in range(0, len(blocks), 6):
        blocks[n] = f"{'#' * (1 + n % 3)} Section {n}\n\n{blocks[n]}"
    for n in range(3, len(blocks), 12):
        blocks[n] = "- " + blocks[n].replace("\n", "\n- ")
    for n in range(5, len(blocks), 40):
        blocks[n] = f"```\n# a comment\n{blocks[n]}\n```"
    return "\n\n".join(blocks)[:size]


NATURAL: dict[str, Callable[[int], str]] = {
    "prose": prose,
    "80-character lines": wrapped,
    "Markdown": markdown,
    "one line": lambda size: prose(size).replace("\n", " "),
}
ENDLESS: dict[str, Callable[[int], str]] = {
    "one word": lambda size: "x" * size,
    "blank lines": lambda size: "\n" * (size - 1) + "x",
    "one-letter lines": lambda size: "x\n" * (size // 2),
    "headings": lambda size: "# h, x.\n" * (size // 8),
    "sentence ends": lambda size: ".!" * (size // 2),
    "open fences": lambda size: "```\n# a\n~~~\n" * (size // 12),
    "list": lambda size: "- item\n" * (size // 7),
    "quote": lambda size: "> text\n" * (size // 7),
}
BLIND_TO_MARKUP = ("default", "sentence_window")


def seconds(cut: Cut, text: str, repeats: int = 3) -> float:
    """Return the processor time of the fastest of some calls."""
    times: list[float] = []
    for _ in range(repeats):
        gc.collect()
        started = time.process_time()
        cut(text)
        times.append(time.process_time() - started)
    return max(min(times), 1e-9)


def cutting(chunker: Chunker, markup: str) -> Cut:
    meta = DocumentMeta("bench", markup=markup)
    return lambda text: chunker.chunk(text, meta, max_chars=MAX_CHARS, overlap_chars=OVERLAP_CHARS)


def into_columns(chunker: Chunker, markup: str) -> Cut:
    meta = DocumentMeta("bench", markup=markup)

    def cut(text: str) -> None:
        documents = [DocumentInput(text, meta)]
        for _ in chunk_batches(documents, chunker, max_chars=MAX_CHARS, overlap_chars=OVERLAP_CHARS):
            pass

    return cut


def built_in(spec: str) -> Chunker:
    chunker = make_chunker(spec)
    if chunker is None:
        raise ValueError(spec)
    return chunker


def peers() -> Iterator[tuple[str, Cut | None]]:
    """Yield other libraries' splitters with the same sizes, in characters; None where they are not installed."""

    def semchunk() -> Cut:
        return importlib.import_module("semchunk").chunkerify(len, MAX_CHARS, memoize=False)

    def chonkie() -> Cut:
        library = importlib.import_module("chonkie")
        return library.RecursiveChunker(tokenizer="character", chunk_size=MAX_CHARS).chunk

    def chonkie_sentences() -> Cut:
        library = importlib.import_module("chonkie")
        chunker = library.SentenceChunker(tokenizer="character", chunk_size=MAX_CHARS, chunk_overlap=OVERLAP_CHARS)
        return chunker.chunk

    def langchain() -> Cut:
        library = importlib.import_module("langchain_text_splitters")
        splitter = library.RecursiveCharacterTextSplitter(chunk_size=MAX_CHARS, chunk_overlap=OVERLAP_CHARS)
        return splitter.split_text

    for name, make in (
        ("semchunk", semchunk),
        ("chonkie RecursiveChunker", chonkie),
        ("chonkie SentenceChunker", chonkie_sentences),
        ("langchain RecursiveCharacterTextSplitter", langchain),
    ):
        try:
            yield name, make()
        except ImportError:
            yield name, None


def speeds(size: int) -> int:
    """Print a table of speeds and return how many are too low."""
    texts = {"prose": prose(size), "80-character lines": wrapped(size), "Markdown": markdown(size)}
    missed = 0
    print(f"\n{'MB/s of processor time':44}" + "".join(f"{name:>20}" for name in texts))

    def row(name: str, cuts: dict[str, Cut], needs: dict[str, float], repeats: int) -> None:
        nonlocal missed
        cells = []
        for kind, text in texts.items():
            speed = len(text.encode()) / 1e6 / seconds(cuts[kind], text, repeats)
            missed += speed < needs.get(kind, 0)
            need = f" (>= {needs[kind]:.0f})" if kind in needs else ""
            cells.append(f"{speed:.1f}{need}".rjust(20))
        print(f"{name:44}" + "".join(cells), flush=True)

    for spec in SPECS:
        for suffix, make in (("", cutting), (", to Arrow", into_columns)):
            cuts = {kind: make(built_in(spec), "markdown" if kind == "Markdown" else "plain") for kind in texts}
            needs = {kind: need for (of, kind), need in REQUIRED.items() if of == spec and not suffix}
            row(spec + suffix, cuts, needs, 3)
    for name, cut in peers():
        if cut is None:
            print(f"{name:44}{'not installed':>20}")
        else:
            row(name, dict.fromkeys(texts, cut), {}, 1)
    return missed


def doublings(largest: int) -> int:
    """Print how the time grows when a text is doubled, and return how often too fast.

    Texts that nobody writes are doubled up to a quarter of the size: they have many times more lines.
    """
    missed = 0
    print(f"\n{'time(2n)/time(n) up to ' + f'{largest / 1e6:.0f} MB':44}" + "".join(f"{spec:>17}" for spec in SPECS))
    for kind, make in {**NATURAL, **ENDLESS}.items():
        size = largest if kind in NATURAL else largest // 4
        texts = [make(size // 4), make(size // 2), make(size)]
        for markup in ("plain", "markdown"):
            cells = []
            for spec in SPECS:
                if markup == "markdown" and spec in BLIND_TO_MARKUP:
                    cells.append(f"{'-':>17}")
                    continue
                cut = cutting(built_in(spec), markup)
                times = [seconds(cut, text) for text in texts]
                ratios = [after / before for before, after in pairwise(times)]
                # Over all doublings together: a single one also measures where the caches end.
                slow = times[-1] > 0.05 and times[-1] / times[0] > LIMIT ** len(ratios)
                missed += slow
                cells.append(f"{' '.join(f'{ratio:.2f}' for ratio in ratios)}{'!' if slow else ''}".rjust(17))
            print(f"{f'{kind}, {markup}':44}" + "".join(cells), flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=float, default=8.0, help="size up to which texts are doubled")
    arguments = parser.parse_args()
    missed = speeds(4_000_000) + doublings(int(arguments.megabytes * 1e6))
    print("\nall as required" if not missed else f"\n{missed} of these are not as required")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
