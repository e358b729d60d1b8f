"""Ask of everything that reads text whether its time follows the text: `make fuzz` (SPEC 2.3, 5.7, 6.5).

Each subject reads each pattern in three sizes, one twice the other. Time of this process is measured, the best of a few
tries, so that a busy machine decides nothing: where twice the text takes three times the time, twice in a row, a rule
grows faster than its text, and somebody's file holds the store. Prints what broke and exits 1.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ragspine_assets.audit.chunks import canonical_again
from ragspine_assets.audit.letter_search import squeeze as squeezed_again
from ragspine_assets.audit.stated_labels import _readings as readings_again
from ragspine_assets.chunking import DocumentMeta, make_chunker
from ragspine_assets.chunking.enforcement import cut_document
from ragspine_assets.chunking.headings import plain_heading
from ragspine_assets.chunking.locator import parse_locator
from ragspine_assets.chunking.markdown import headings_and_opaque_lines, markdown_headings
from ragspine_assets.documents import normalise_text
from ragspine_assets.documents.citations import DocumentNames, cited_id
from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.extraction import ExtractionError, extract_bytes
from ragspine_assets.documents.frontmatter import split_front_matter
from ragspine_assets.documents.metadata import MetadataError, load_metadata_table
from ragspine_assets.documents.normalise import canonical_text
from ragspine_assets.documents.period import period_from_filename
from ragspine_assets.evaluation.drafts import _first_sentence, _heading_of
from ragspine_assets.graph.grounding import GroundedText, cleaned_name, denies, folded_type
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.reply_parser import read_answer
from ragspine_assets.index.analysis import make_analyzer
from ragspine_assets.index.languages import ReadDocument
from ragspine_assets.index.spellings import folded_width, forms, other_characters, other_spellings
from ragspine_assets.index.tokens import tokenize
from ragspine_assets.policy import (
    Aside,
    DomainProfile,
    FileLabels,
    SecurityGate,
    SensitivityPolicy,
    classify_sensitivity,
    explain_sensitivity,
    fold_text,
)
from ragspine_assets.policy.lattice import read_label
from ragspine_assets.policy.markings import Markings
from ragspine_assets.policy.reading import readings, squeeze
from ragspine_assets.policy.skeleton import letters_of
from ragspine_assets.policy.unwrapped import unwrapped
from ragspine_assets.retrieval.context import SentenceCompressor, build_context
from ragspine_assets.retrieval.rerank import build_listwise_prompt, parse_listwise_response
from ragspine_assets.retrieval.rewriting import SynonymRewriter
from ragspine_assets.serving.snapshot import citations

SIZES = (32 << 10, 64 << 10, 128 << 10)
RATIO = 3.0
NOISE_S = 0.02
GIVE_UP_S = 20

OUTSIDERS = {
    name: name
    for name in (
        *("Okeandrift", "Meta", "Vandelay Industries", "A1", "aa", "竞安保险", "ロボテック", "가나", "Ромашка"),
        "I",
        "x-y",
    )
}
PROFILE = DomainProfile(
    home_company_name="Home Group",
    home_entity_code="HOME",
    home_entity_synonyms={"Home Group": "HOME", "甲": "ALPHA", "가": "BETA", "a": "GAMMA", "本社": "HOME"},
    external_entities=OUTSIDERS,
)
POLICY = SensitivityPolicy("INTERNAL", False, ("*secret*",), ("strictly private", "机密", "aa bb", "社外秘"))


class Subject(NamedTuple):
    """Something that reads text; `reads` is handed a text of code points or its UTF-8."""

    name: str
    reads: Callable[[str], object]


def _decoded(text: str) -> object:
    found = []
    for data in (
        text.encode("utf-8", "surrogatepass"),
        text.encode("utf-16-le", "surrogatepass"),
        text.encode("cp1252", "replace"),
    ):
        try:
            found.append(decode_text(data))
        except UndecodableText as refused:
            found.append(refused)
    return found


def _legacy(text: str) -> object:
    try:
        return decode_text(text.encode("gb18030", "replace") + b"\xff\xfe\xa1", markup=True)
    except UndecodableText as refused:
        return refused


def _extracted(suffix: str) -> Callable[[str], object]:
    def reads(text: str) -> object:
        try:
            return extract_bytes(text.encode("utf-8", "surrogatepass"), suffix)
        except ExtractionError as refused:
            return refused

    return reads


def _chunked(spec: str, markup: str) -> Callable[[str], object]:
    chunker = make_chunker(spec)
    meta = DocumentMeta("a.txt", markup=markup)
    return lambda text: cut_document(text, meta, chunker)


def _label_of_file(text: str) -> object:
    asides = (Aside("name of an object", "", text), Aside("header", "page 1", text))
    return explain_sensitivity("a.docx", "", POLICY, file=FileLabels(asides=asides))


def _located(text: str) -> object:
    try:
        return parse_locator(text)
    except ValueError as refused:
        return refused


def _table(text: str) -> object:
    try:
        return load_metadata_table(text.encode("utf-8", "surrogatepass"))
    except MetadataError as refused:
        return refused


def subjects() -> Iterator[Subject]:
    """Yield everything that reads a document's, a model's or an asker's text."""
    gate = SecurityGate(OUTSIDERS, "Home Group")
    words = Vocabulary(PROFILE)
    stemming = make_analyzer("stemmed")

    def grounded(text: str) -> object:
        found = GroundedText(text, words)
        held = [found.holds(name) for name in ("Okeandrift", "a", "가", "甲", "x", "(", "ab", "나")]
        return held, [found.denied((one, ""), (other, "")) for one, other in (("a", "b"), ("가", "나"), ("x", "甲"))]

    yield Subject("decoder", _decoded)
    yield Subject("decoder, legacy", _legacy)
    yield Subject("normaliser", lambda text: canonical_text(normalise_text(text)))
    yield Subject("the proof's canonical text", canonical_again)
    yield Subject("front matter", lambda text: split_front_matter(f"---\n{text}\n---\n"))
    yield Subject("front matter without end", lambda text: split_front_matter(f"---\n{text}"))
    yield Subject("headings", markdown_headings)
    yield Subject("headings and code", headings_and_opaque_lines)
    for suffix in (".txt", ".md", ".csv"):
        yield Subject(f"extraction {suffix}", _extracted(suffix))
    for spec in ("none", "default", "layout", "parent_child", "sentence_window", "laws", "qa", "book", "structure"):
        for markup in ("plain", "markdown"):
            yield Subject(f"chunker {spec}, {markup}", _chunked(spec, markup))
    yield Subject("folding", fold_text)
    yield Subject("label", lambda text: classify_sensitivity("a.txt", text, POLICY))
    yield Subject("label of a file", _label_of_file)
    yield Subject("label's name", read_label)
    markings = Markings([("RESTRICTED", ["strictly private", "機密", "aa bb", "社外秘"])])
    yield Subject("markings", markings.find)
    yield Subject("markings of a title", lambda text: markings.find(text, titled=True))
    yield Subject("readings", readings)
    yield Subject("squeezed", squeeze)
    yield Subject("the proof's readings", lambda text: list(readings_again(text, False, True)))
    yield Subject("the proof's readings of a source", lambda text: list(readings_again(text, True, True)))
    yield Subject("the proof's squeezed", squeezed_again)
    yield Subject("unwrapped", unwrapped)
    yield Subject("skeleton", lambda text: [letters_of(char) for char in text])
    yield Subject("gate", gate.detect)
    yield Subject("gate, question", lambda text: gate.screen(raw_question=text))
    yield Subject("mentions", words.entities_in)
    yield Subject("grounding", grounded)
    yield Subject("denial", denies)
    yield Subject("name", cleaned_name)
    yield Subject("type", folded_type)
    yield Subject("answer", read_answer)
    yield Subject("answer in a fence", lambda text: read_answer(f'```json\n{{"relations": []}}\n```{text}'))
    yield Subject("tokens", tokenize)
    yield Subject("stems", lambda text: stemming.terms(text, "en"))
    yield Subject("language", lambda text: stemming.languages([ReadDocument("", "", [text])]))
    yield Subject("spellings", lambda text: list(forms(text)))
    yield Subject("spellings of a word", lambda text: (other_spellings(text), folded_width(text)))
    # It is handed runs of letters only.
    yield Subject("other characters", lambda text: other_characters(text.encode("utf-8", "replace").decode()))
    yield Subject("question", lambda text: stemming.query(text, ["en", "it"]))
    yield Subject("rewriter", SynonymRewriter(PROFILE).rewrite)
    names = DocumentNames(["a/b.txt", "hr/pay.txt", "甲.md", "x y.pdf"])
    yield Subject("citation", lambda text: (names.named(text), names.named(text, folders=True), citations(text)))
    yield Subject("citation of an id", lambda text: cited_id(text, {"a/b.txt"}))
    yield Subject("citation in a path", lambda text: names.named(f"hr/pay.txt#{text}"))
    yield Subject("locator", _located)
    yield Subject("heading of a chunk", plain_heading)
    yield Subject("period", period_from_filename)
    yield Subject("drafts", lambda text: (_heading_of(f"# {text}"), _first_sentence(text)))
    yield Subject("table of metadata", lambda text: _table(f"doc_id,title\n{text}"))
    yield Subject("table of metadata's header", _table)
    yield Subject("judge's prompt", lambda text: build_listwise_prompt("query", [text, text]))
    yield Subject("judge's answer", lambda text: parse_listwise_response(text, 50))
    yield Subject("context", lambda text: build_context([{"text": text, "chunk_id": "c", "source_locator": "l"}]))
    yield Subject(
        "compression", lambda text: SentenceCompressor().postprocess("a b", [{"text": text[:99], "prompt_text": text}])
    )


_SINGLE = (
    "\0 \t\n\r\x0b\x0c\x1b\x85\xa0\u2028\u3000aAI1|0.-_*`~#<>[](){}\\\"'/:;,!?&=+^$%@\x7f\u00ad\u0301\u200b\u200d\u202e\u2066"
    "\u0338\u20dd\u3099\uff9e\ufe0f\ufeff\u1100\u1161\u11a8가나甲竞ロあéﬁ①™¹Ａа\u0430\ud800\udfff\U0001f600\U0001d400\U000e0041\u0e33\u0915\u094d"
)
_UNITS = (
    *(
        "ab ",
        "a b ",
        "a\n",
        "a\n\n",
        "- a\n",
        "* ",
        "1. a\n",
        "# a\n",
        "#",
        "---\n",
        "===\n",
        "a\n---\n",
        "> ",
        ">> a\n",
        "    a\n",
    ),
    *(
        "```\n",
        "~~~",
        "`a",
        "``a`",
        "*a",
        "**a",
        "_a_",
        "[a](",
        "[a]: b\n",
        "![",
        "](",
        "<a ",
        "<!--",
        "<?",
        "<![CDATA[",
        "</",
        "<b>",
    ),
    *(
        "&amp;",
        "&#",
        "\\*",
        "|a",
        "|-|\n",
        "a|b\n",
        "a: b\n",
        "a:\n",
        "- - ",
        "{a: ",
        "[[",
        "{}",
        "<think>",
        "</think>",
        "<think ",
    ),
    *(
        '{"',
        '{"relations": [',
        '"a',
        "[1, ",
        "n't ",
        "not ",
        "no 1 ",
        "senza ",
        "なければ",
        "ないとだ",
        "不",
        "わず",
        "。",
        "? ",
        "Q: a?\n",
    ),
    *(
        "第1条 a\n",
        "第",
        "Article 1\n",
        "1.1.1.1",
        "1 1 ",
        "1,1.",
        "IV. a\n",
        "FY2024",
        "\r\n",
        "\u2028\u2029",
        "\ufeff\0",
        "\0a",
        "a\0",
        "\x1b$B",
        "\x1b$)C",
    ),
    *(
        "G l o b e x ",
        "O k e a n d r i f",
        "Okeandrift ",
        "okeandrif",
        "m e t a ",
        "M3ta ",
        "0keandr1ft ",
        "ok-\nean",
        "**Ok**ean",
        "<b>Ok</b>",
        "竞安",
        "가나 ",
    ),
    *(
        "a\u0301",
        "a\u200b",
        "か\u3099",
        "か\u3099\u3099",
        "ﾊﾟ",
        "\u1100\u1161",
        "e\u0301\u0323",
        "\u202ea\u202c",
        "\u202ea",
        "\u202a",
        "à ",
        "İ",
        "ß",
        "ﷺ",
        "😀\u200d",
    ),
    *(
        "x" * 79 + "\n",
        "word " * 16 + "\n",
        "x" * 5000 + "\n",
        "。。a",
        "a.b.c",
        "a@b.c ",
        "http://a/",
        "://",
        "C:\\a\\",
        "'a'b",
        '"a" ',
        "(a",
        "a)",
        "«",
        "“a”",
    ),
)


def patterns(seed: int, mixtures: int) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Yield patterns by name: each makes a text of a number of code points."""
    units = [*_SINGLE, *_UNITS]
    for unit in units:
        yield f"runs of {unit!a}", lambda size, unit=unit: (unit * (size // len(unit) + 1))[:size]
    for unit in units:
        yield (
            f"{unit!a} between letters",
            lambda size, unit=unit: "a" + (unit * (size // len(unit) + 1))[: size - 2] + "b",
        )
    for one, other in (
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("<b>", "</b>"),
        ("> ", ""),
        ("**", "**"),
        ("*_", "_*"),
        ("“", "”"),
        ("\u202e", "\u202c"),
        ("- ", ""),
    ):
        yield (
            f"nested {one!a}",
            lambda size, one=one, other=other: (one * (size // (2 * len(one)))) + (other * (size // (2 * len(one)))),
        )
    rng = random.Random(seed)
    for _ in range(mixtures):
        some = [rng.choice(units) for _ in range(rng.choice((2, 2, 3, 4)))]
        yield f"mixture of {some!a}", lambda size, unit="".join(some): (unit * (size // len(unit) + 1))[:size]
        yield (
            f"blocks of {some!a}",
            lambda size, some=some: "".join((unit * (size // len(unit) + 1))[: size // len(some)] for unit in some),
        )


class TooLongError(Exception):
    """A subject did not come back."""


def _give_up(*_: object) -> None:
    raise TooLongError


def seconds(reads: Callable[[str], object], text: str, tries: int = 2) -> float:
    """Return the processor time of the fastest of some tries."""
    best = float("inf")
    for _ in range(tries):
        start = time.process_time()
        reads(text)
        best = min(best, time.process_time() - start)
        if best < NOISE_S / 4:
            break
    return best


def fault(reads: Callable[[str], object], make: Callable[[int], str]) -> str:
    """Return how a subject breaks the promise on a pattern; '' if it keeps it."""
    took = [seconds(reads, make(size), 1) for size in SIZES[:2]]
    if took[1] < NOISE_S:
        # So little that even the square of it would show at the next size.
        took.append(seconds(reads, make(SIZES[2]), 1))
        if took[2] < NOISE_S * RATIO:
            return ""
    took = [seconds(reads, make(SIZES[0]), 2), took[1], seconds(reads, make(SIZES[2]), 1)]
    if took[2] > RATIO * took[1]:
        took = [seconds(reads, make(size), 5) for size in SIZES]
    if took[2] > NOISE_S and (took[2] > RATIO * took[1] and took[2] > 1.5 * RATIO * took[0]):
        # What leaves the cache of the processor takes a step once; what is no line goes on.
        if took[2] < 1 and seconds(reads, make(2 * SIZES[2]), 3) < RATIO * took[2]:
            return ""
        return " ".join(f"{size >> 10} KB {value:.3f} s," for size, value in zip(SIZES, took, strict=True)).rstrip(",")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="begin no further pattern after so long")
    parser.add_argument("--mixtures", type=int, default=60, help="patterns made of several units")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="only subjects whose name holds this")
    given = parser.parse_args()
    signal.signal(signal.SIGPROF, _give_up)
    chosen = [subject for subject in subjects() if given.only in subject.name]
    broken: list[str] = []
    done = 0
    until = time.monotonic() + given.seconds
    every = list(patterns(given.seed, given.mixtures))
    random.Random(given.seed).shuffle(every)
    for name, make in every:
        if time.monotonic() > until:
            break
        for subject in chosen:
            signal.setitimer(signal.ITIMER_PROF, GIVE_UP_S)
            try:
                problem = fault(subject.reads, make)
            except TooLongError:
                problem = f"took more than {GIVE_UP_S} s of the processor"
            except Exception as error:
                problem = f"raised {type(error).__name__}"
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if problem:
                broken.append(f"{subject.name}, {name}: {problem}")
                print(f"BROKEN {broken[-1]}", flush=True)
        done += 1
    print(f"seed {given.seed}: {done} of {len(every)} patterns, {len(chosen)} subjects, {len(broken)} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
