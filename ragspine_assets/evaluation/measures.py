"""How well a snapshot answers golden questions: rank measures by ir-measures, and what arrives in a context (SPEC 10.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache

from ahocorasick_rs import AhoCorasick

from ragspine_assets.evaluation.questions import Expected, GoldenQuestion
from ragspine_assets.retrieval.context import build_context
from ragspine_assets.serving.snapshot import Snapshot

DEPTH = 100
"""How many hits of a question are judged."""

BUDGETS = (500, 2000, 8000)
"""Sizes of the contexts in which the passage is looked for, in code points."""

RANKED = ("nDCG@10", "R@5", "R@10", "R@100", "RR")
"""Measures of a ranking, as ir-measures calls them."""

MAIN = "nDCG@10"
"""The measure by which releases are compared."""

_MATCHED = 16
_HALF = 0.5


@dataclass(frozen=True)
class Judged:
    """How one question went.

    Attributes:
        question: the question.
        values: every measure by name; empty where it is stale; without shares where no passage is expected.
        labels: highest label of what is expected, ``''`` where it is stale.
    """

    question: GoldenQuestion
    values: Mapping[str, float] = field(default_factory=dict)
    label: str = ""

    @property
    def stale(self) -> bool:
        """Whether nothing of what is expected is in the snapshot: it is gone, or was changed."""
        return not self.values


@dataclass(frozen=True)
class Evaluation:
    """How a snapshot answers a golden set.

    Attributes:
        snapshot: its name.
        judged: every question, in the order of the set.
    """

    snapshot: str
    judged: tuple[Judged, ...]

    def mean(self, measure: str = MAIN) -> float:
        """Return the mean of a measure over the questions that are not stale; 0 where there is none."""
        return _mean(one.values[measure] for one in self.judged if not one.stale)

    def stale(self) -> list[Judged]:
        """Return the questions whose passage is gone or changed."""
        return [one for one in self.judged if one.stale]

    def table(self) -> list[dict[str, str | int | float]]:
        """Return the means of all measures: of all questions, and by language, label and topic."""
        groups: dict[tuple[str, str], list[Judged]] = {("all", ""): []}
        for one in self.judged:
            if one.stale:
                continue
            groups["all", ""].append(one)
            for by, value in (("language", one.question.language), ("label", one.label), ("topic", one.question.topic)):
                if value:
                    groups.setdefault((by, value), []).append(one)
        order = ("all", "language", "label", "topic")
        return [
            {
                "by": by,
                "value": value,
                "questions": len(members),
                **{
                    name: round(_mean(one.values[name] for one in members if name in one.values), 4)
                    for name in measure_names()
                },
            }
            for (by, value), members in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        ]


def measure_names() -> tuple[str, ...]:
    """Return the names of all measures, in the order of tables."""
    return (*RANKED, *(f"passage in {budget}" for budget in BUDGETS))


_LAST: dict[tuple[str, str], Evaluation] = {}
_REMEMBERED = 4


def evaluate_once(snapshot: Snapshot, questions: Sequence[GoldenQuestion]) -> Evaluation:
    """Return what `evaluate` does; the last few evaluations of this process are remembered, as a release never changes."""
    key = (snapshot.manifest.digest, repr(questions))
    if key not in _LAST:
        while len(_LAST) >= _REMEMBERED:
            _LAST.pop(next(iter(_LAST)))
        _LAST[key] = evaluate(snapshot, questions)
    return _LAST[key]


def evaluate(snapshot: Snapshot, questions: Sequence[GoldenQuestion]) -> Evaluation:
    """Ask a snapshot every question of a golden set.

    A hit counts where its text holds an expected passage, or is half of one that chunks cut, or holds half of it; of several hits on one
    passage the first counts. Where only a document is expected, its first hit does.

    Args:
        snapshot: what is asked, within its own highest label.
        questions: the golden set.
    """
    import ir_measures

    places = _Places(snapshot, questions)
    retriever = snapshot.retriever()
    relevant: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    shares: dict[str, dict[str, float]] = {}
    for position, question in enumerate(questions):
        targets = places.of(question)
        if not targets:
            continue
        key = str(position)
        snippets = retriever.retrieve(question.text, filters=question.filters, top_k=DEPTH)
        relevant[key] = dict.fromkeys(targets, 1)
        ranked[key] = _ranking([str(snippet["chunk_id"]) for snippet in snippets], targets)
        passages = [target.passage for target in targets.values() if target.passage]
        shares[key] = {
            f"passage in {budget}": _share(build_context(snippets, budget_chars=budget), passages)
            for budget in (BUDGETS if passages else ())
        }
    values: dict[str, dict[str, float]] = defaultdict(dict)
    parsed = {ir_measures.parse_measure(name): name for name in RANKED}
    for metric in ir_measures.iter_calc(list(parsed), relevant, ranked) if relevant else ():
        values[metric.query_id][parsed[metric.measure]] = float(metric.value)
    judged = []
    for position, question in enumerate(questions):
        key = str(position)
        if key not in relevant:
            judged.append(Judged(question))
            continue
        measured = {name: values[key].get(name, 0.0) for name in RANKED} | shares[key]
        judged.append(Judged(question, measured, places.label(question)))
    return Evaluation(snapshot.manifest.name, tuple(judged))


@dataclass(frozen=True)
class _Target:
    """Something expected that is there: the chunks that hold it, and its words where a passage is expected."""

    chunk_ids: frozenset[str]
    passage: str


class _Places:
    """Where in a snapshot the expected passages are."""

    def __init__(self, snapshot: Snapshot, questions: Sequence[GoldenQuestion]) -> None:
        self._snapshot = snapshot
        self._anywhere = self._search(
            {
                _plain(one.passage)
                for question in questions
                for one in question.expected
                if one.passage and not (one.doc_id or one.citation)
            }
        )

    def of(self, question: GoldenQuestion) -> dict[str, _Target]:
        """Return what is expected and there, by a name each."""
        found = {}
        for number, expected in enumerate(question.expected):
            positions, passage = self._positions(expected)
            if positions:
                ids = frozenset(self._snapshot.chunks[position].chunk_id for position in positions)
                found[f"expected {number}"] = _Target(ids, passage)
        return found

    def label(self, question: GoldenQuestion) -> str:
        """Return the highest label of what is expected."""
        from ragspine_assets.policy.lattice import read_label

        labels = [
            read_label(self._snapshot.chunks[position].sensitivity)
            for expected in question.expected
            for position in self._positions(expected)[0][:1]
        ]
        return max(labels, key=lambda label: label.rank).value if labels else ""

    def _positions(self, expected: Expected) -> tuple[list[int], str]:
        passage = _plain(expected.passage)
        if expected.citation:
            chunk = self._snapshot.chunk(expected.citation)
            if chunk is not None and (not passage or passage in _plain(chunk.text)):
                return self._within(chunk.doc_id, passage or _plain(chunk.text)), passage or _plain(chunk.text)
            if not passage:
                return [], ""
        if not passage:
            return self._snapshot.chunks.of_document(expected.doc_id).tolist(), ""
        doc_id = expected.doc_id or (_document_of(expected.citation) if expected.citation else "")
        return (self._within(doc_id, passage) if doc_id else self._anywhere.get(passage, [])), passage

    def _within(self, doc_id: str, passage: str) -> list[int]:
        positions = self._snapshot.chunks.of_document(doc_id).tolist()
        texts = {position: _plain(self._snapshot.chunks[position].text) for position in positions}
        whole = [position for position, text in texts.items() if passage in text]
        if whole:
            return whole
        # The passage may be cut: what holds the larger part of it stands for it, if the parts together are all of it.
        joined = _plain(" ".join(texts.values()))
        if passage not in joined and not _cut_apart(passage, list(texts.values())):
            return []
        shares = {position: _overlap(text, passage) for position, text in texts.items()}
        return [
            position for position, share in shares.items() if share >= _HALF * min(len(passage), len(texts[position]))
        ]

    def _search(self, passages: set[str]) -> dict[str, list[int]]:
        wanted = sorted(passages)
        found: dict[str, list[int]] = defaultdict(list)
        if not wanted:
            return found
        automaton = AhoCorasick(wanted)
        for position, text in enumerate(self._snapshot.chunks.texts()):
            for number in {hit[0] for hit in automaton.find_matches_as_indexes(_plain(text), overlapping=True)}:
                found[wanted[number]].append(position)
        return found


def _document_of(citation: str) -> str:
    from ragspine_assets.serving.snapshot import citations

    ways = citations(citation)
    return ways[0][0] if ways else ""


def _cut_apart(passage: str, texts: Sequence[str]) -> bool:
    """Whether neighbouring chunks that overlap hold a passage together, though none holds all of it."""
    left = passage
    for text in texts:
        while left and (size := _longest_prefix(left, text)) >= min(_MATCHED, len(left)):
            left = left[size:].lstrip()
    return not left


def _longest_prefix(passage: str, text: str) -> int:
    low, high = 0, len(passage)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if passage[:middle] in text else (low, middle - 1)
    return low


def _overlap(text: str, passage: str) -> int:
    return SequenceMatcher(None, text, passage, autojunk=False).find_longest_match().size


def _ranking(chunk_ids: Sequence[str], targets: Mapping[str, _Target]) -> dict[str, float]:
    """Return scores by name: a hit on a target has the target's name, its later hits take no place."""
    names: dict[str, None] = {}
    for chunk_id in chunk_ids:
        hit = [name for name, target in targets.items() if chunk_id in target.chunk_ids]
        for name in hit or [chunk_id]:
            names.setdefault(name)
    return {name: float(len(names) - rank) for rank, name in enumerate(names)}


def _share(context: str, passages: Sequence[str]) -> float:
    """Return which share of the passages' characters stands in a context, in pieces of some length."""
    text = _plain(context)
    delivered = 0
    for passage in passages:
        if passage in text:
            delivered += len(passage)
            continue
        blocks = SequenceMatcher(None, text, passage, autojunk=False).get_matching_blocks()
        delivered += sum(block.size for block in blocks if block.size >= min(_MATCHED, len(passage)))
    return delivered / max(sum(map(len, passages)), 1)


@cache
def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
