"""A model as extractor of relations: what it is asked, what it costs, and what of its answers is believed (SPEC 5.6)."""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from ragspine_assets.graph.answer_cache import AnswerCache, AnswersInMemory, KeptAnswer, answer_id
from ragspine_assets.graph.grounding import GroundedText, cleaned_name, folded_type
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.prompt import (
    PROMPT_VERSION,
    RELATIONS_SCHEMA,
    RULES_TOKENS,
    estimated_tokens,
    messages_about,
)
from ragspine_assets.graph.reply_parser import Answer, Proposal, read_answer
from ragspine_assets.graph.screening import GraphChunk, text_hash
from ragspine_assets.graph.values import (
    EDGE_META_ANSWER,
    EDGE_META_CHUNK,
    EDGE_META_DERIVED,
    EDGE_META_MODEL,
    EDGE_META_VERIFIED,
    PROVENANCE_MODEL_DERIVED,
    PROVENANCE_UNVERIFIED,
    GraphEdge,
)
from ragspine_assets.llm import ChatReply, LLMProvider, ProviderError
from ragspine_assets.policy import DomainProfile, SecurityGate, is_restricted
from ragspine_assets.policy.folding import fold_text

MAX_RELATIONS = 64
"""Most edges taken from one chunk unless told otherwise."""
GIVE_UP_AFTER = 20
"""So many questions in a row without an answer mean that the endpoint is not there."""
_REASON = re.compile(r"[a-z0-9_]{1,40}")

CALLS_REACHED = "max_llm_calls"
TOKENS_REACHED = "token_budget"
ENDPOINT_SILENT = "endpoint_silent"
DRY_RUN = "dry_run"
WITHHELD = "withheld"


@dataclass
class LLMReport:
    """What one extraction cost, and what became of the answers.

    Attributes:
        chunks: chunks that could be asked about.
        cache_hits: chunks whose text had been asked about before, or stands in another chunk too.
        calls: questions put.
        answered: questions answered.
        input_tokens, output_tokens: what the answers cost, as the endpoint counts or, where it does not, as estimated.
        accepted: edges taken, one per chunk and edge.
        refused: proposals and answers that were not taken, by reason.
        chunks_left: chunks without an answer still.
        calls_left: questions that would answer them.
        tokens_left: about how many tokens of input these would cost.
        stopped: why the run ended with chunks left: `max_llm_calls`, `token_budget`, `endpoint_silent`, `dry_run`, or
            `withheld`: a label was raised meanwhile, or the store was busy and could not be asked.
    """

    chunks: int = 0
    cache_hits: int = 0
    calls: int = 0
    answered: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    chunks_left: int = 0
    calls_left: int = 0
    tokens_left: int = 0
    stopped: str = ""


@dataclass(frozen=True)
class _Question:
    text: str
    text_hash: str
    doc_ids: frozenset[str]
    input_tokens: int


class LLMRelationExtractor:
    """Asks a model for the relations in each chunk and believes it strictly (SPEC 5.6).

    What it returns is marked as model-derived and unverified on every edge, with the lineage of the chunk it came from,
    never of the model's words. No exception of the provider leaves `extract`; `report` says what happened.

    Args:
        provider: the model.
        profile: the domain profile, for its names and its security gate.
        security_gate: a further gate; it can only refuse more.
        max_relations: most edges taken from one chunk.
        max_relations_total: most edges taken in one run; None for no limit.
        max_llm_calls: most questions put in one run; None for no limit.
        token_budget: most tokens spent in one run, input and output together; None for no limit. A question is put
            only if it fits with the longest answer it may get.
        concurrency: questions put at the same time.
        max_tokens: longest answer, in tokens.
        call_time_limit_s: seconds after which a question counts as unanswered, whatever the provider does.
        cache: where answers are kept; in memory when None.
        dry_run: only answers already kept are used, and `report` says what the others would cost.

    Attributes:
        report: what the last `extract` did.

    Raises:
        ValueError: if neither profile nor gate is given, or a limit makes no sense.
    """

    deterministic = False

    def __init__(
        self,
        provider: LLMProvider,
        *,
        profile: DomainProfile | None = None,
        security_gate: SecurityGate | None = None,
        max_relations: int = MAX_RELATIONS,
        max_relations_total: int | None = None,
        max_llm_calls: int | None = None,
        token_budget: int | None = None,
        concurrency: int = 1,
        max_tokens: int = 1024,
        call_time_limit_s: float = 300.0,
        cache: AnswerCache | None = None,
        dry_run: bool = False,
    ) -> None:
        if profile is None and security_gate is None:
            raise ValueError("a model's edges must be screened: give a profile or a security_gate")
        if min(max_relations, concurrency, max_tokens) < 1 or call_time_limit_s <= 0:
            raise ValueError("max_relations, concurrency and max_tokens are at least 1, call_time_limit_s above 0")
        if any(limit is not None and limit < 0 for limit in (max_relations_total, max_llm_calls, token_budget)):
            raise ValueError("max_relations_total, max_llm_calls and token_budget are at least 0, or None for no limit")
        self._provider = provider
        self._vocabulary = Vocabulary(profile or DomainProfile())
        self._gate = security_gate
        self._max_relations = max_relations
        self._max_relations_total = max_relations_total
        self._max_calls = max_llm_calls
        self._token_budget = token_budget
        self._concurrency = concurrency
        self._time_limit_s = call_time_limit_s
        self._cache: AnswerCache = AnswersInMemory() if cache is None else cache
        self._dry_run = dry_run
        self._options: Mapping[str, object] = {"temperature": 0.0, "max_tokens": max_tokens}
        self._max_tokens = max_tokens
        self.model = str(getattr(provider, "model", "") or type(provider).__qualname__)
        stated = {**self._options, "endpoint": str(getattr(provider, "endpoint", ""))}
        self.parameters = sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:16]
        self.report = LLMReport()
        self._external: dict[str, bool] = {}

    def __repr__(self) -> str:
        return f"LLMRelationExtractor({self.model!r})"

    def extract(self, chunks: Sequence[GraphChunk]) -> tuple[GraphEdge, ...]:
        """Return the edges that the model proposed and that can be believed, in the order of document and chunk."""
        self.report = LLMReport()
        open_chunks = _open_chunks(chunks)
        hashes = [text_hash(chunk.text) for chunk in open_chunks]
        self.report.chunks = len(open_chunks)
        keys = {hashed: self._key(hashed) for hashed in hashes}
        found = self._cache.find(set(keys.values()))
        answers = {hashed: found[key] for hashed, key in keys.items() if key in found}
        questions = self._questions(open_chunks, hashes, answers)
        answers.update(self._ask(questions))
        unanswered = [question for question in questions if question.text_hash not in answers]
        self.report.calls_left = len(unanswered)
        self.report.tokens_left = sum(question.input_tokens for question in unanswered)
        self.report.chunks_left = sum(hashed not in answers for hashed in hashes)
        self.report.cache_hits = len(hashes) - self.report.chunks_left - self.report.answered
        edges: list[GraphEdge] = []
        for chunk, hashed in zip(open_chunks, hashes, strict=True):
            if hashed in answers:
                edges.extend(self._believed(chunk, answers[hashed], keys[hashed], len(edges)))
        self.report.accepted = len(edges)
        return tuple(edges)

    def _key(self, hashed: str) -> str:
        return answer_id(self.model, PROMPT_VERSION, self.parameters, hashed)

    def _questions(
        self, chunks: Sequence[GraphChunk], hashes: Sequence[str], answers: Mapping[str, Answer]
    ) -> list[_Question]:
        """Return one question per text without an answer, in the order of the chunks."""
        texts: dict[str, str] = {}
        holders: dict[str, set[str]] = {}
        for chunk, hashed in zip(chunks, hashes, strict=True):
            if hashed not in answers and chunk.text.strip():
                texts.setdefault(hashed, chunk.text)
                holders.setdefault(hashed, set()).add(chunk.doc_id)
        return [
            _Question(text, hashed, frozenset(holders[hashed]), estimated_tokens(text) + RULES_TOKENS)
            for hashed, text in texts.items()
        ]

    def _ask(self, questions: Sequence[_Question]) -> dict[str, Answer]:
        """Put questions, some at a time, and keep each answer as it comes."""
        if self._dry_run:
            self.report.stopped = DRY_RUN if questions else ""
            return {}
        asking = _Asking(self._put, self._time_limit_s)
        waiting = list(reversed(questions))
        answers: dict[str, Answer] = {}
        silent = 0
        reserved = 0
        withheld = False
        try:
            while waiting or asking.open:
                while waiting and len(asking.open) < self._concurrency and not self.report.stopped:
                    question = waiting[-1]
                    cost = question.input_tokens + self._max_tokens
                    limit = self._limit_reached(reserved + cost)
                    if limit == TOKENS_REACHED and asking.open:
                        # Answers under way may turn out shorter than the longest they were reckoned with.
                        break
                    self.report.stopped = limit
                    if limit:
                        break
                    # Another process may have raised a label since the chunks were read, an hour ago or just now.
                    if question.doc_ids <= self._cache.withheld(question.doc_ids):
                        # All at once: a store that is busy is waited for once more, not once a question.
                        waiting = self._still_open(waiting[:-1])
                        withheld = True
                        continue
                    waiting.pop()
                    reserved += cost
                    self.report.calls += 1
                    asking.start(question)
                if not asking.open:
                    break
                kept: list[KeptAnswer] = []
                for question, outcome in asking.wait():
                    reserved -= question.input_tokens + self._max_tokens
                    answer = self._outcome(question, outcome)
                    silent = silent + 1 if answer is None else 0
                    if answer is not None:
                        kept.append(answer)
                        answers[question.text_hash] = answer.answer
                if silent >= GIVE_UP_AFTER and waiting and not self.report.stopped:
                    self.report.stopped = ENDPOINT_SILENT
                if kept:
                    self._cache.keep(kept)
            if withheld and not self.report.stopped:
                self.report.stopped = WITHHELD
        finally:
            finish = getattr(self._cache, "finish", None)
            if finish is not None:
                finish()
        return answers

    def _still_open(self, questions: Sequence[_Question]) -> list[_Question]:
        """Return the questions about texts that a document may still be asked about."""
        withheld = self._cache.withheld(frozenset().union(*(question.doc_ids for question in questions)))
        return [question for question in questions if not question.doc_ids <= withheld]

    def _limit_reached(self, tokens: int) -> str:
        if self._max_calls is not None and self.report.calls >= self._max_calls:
            return CALLS_REACHED
        spent = self.report.input_tokens + self.report.output_tokens
        if self._token_budget is not None and spent + tokens > self._token_budget:
            return TOKENS_REACHED
        return ""

    def _put(self, question: _Question) -> ChatReply:
        return self._provider.chat(messages_about(question.text), **self._options, response_schema=RELATIONS_SCHEMA)

    def _outcome(self, question: _Question, outcome: ChatReply | BaseException) -> KeptAnswer | None:
        text = getattr(outcome, "text", None)
        if isinstance(outcome, BaseException) or not isinstance(text, str):
            reason = outcome.reason if isinstance(outcome, ProviderError) else ""
            if isinstance(outcome, TimeoutError):
                reason = "timeout"
            # Counted by and shown, so it must be a name and no sentence that quotes something.
            self.report.refused[f"provider: {reason if _REASON.fullmatch(reason) else 'error'}"] += 1
            return None
        answer = read_answer(text)
        input_tokens = _number(outcome, "input_tokens") or question.input_tokens
        output_tokens = _number(outcome, "output_tokens") or estimated_tokens(text)
        self.report.answered += 1
        self.report.input_tokens += input_tokens
        self.report.output_tokens += output_tokens
        return KeptAnswer(
            self.model,
            PROMPT_VERSION,
            self.parameters,
            question.text_hash,
            answer,
            str(getattr(outcome, "model", "")),
            input_tokens,
            output_tokens,
            question.doc_ids,
        )

    def _believed(self, chunk: GraphChunk, answer: Answer, key: str, before: int) -> list[GraphEdge]:
        """Return the edges of one chunk; everything else is counted by reason."""
        refused = self.report.refused
        if answer.problem:
            refused[answer.problem] += 1
        if answer.more:
            refused["over_chunk_cap"] += answer.more
        if not answer.proposals:
            return []
        text = GroundedText(chunk.text, self._vocabulary)
        edges: list[GraphEdge] = []
        seen: set[tuple[str, str, str]] = set()
        for proposal in answer.proposals:
            believed = self._judge(proposal, text)
            if isinstance(believed, str):
                refused[believed] += 1
                continue
            source, target, kind = believed
            identity = (fold_text(source), fold_text(target), kind)
            if identity in seen:
                refused["duplicate"] += 1
            elif len(edges) >= self._max_relations:
                refused["over_chunk_cap"] += 1
            elif self._max_relations_total is not None and before + len(edges) >= self._max_relations_total:
                refused["over_run_cap"] += 1
            else:
                seen.add(identity)
                metadata = {
                    "source_doc_id": chunk.doc_id,
                    "source_locator": chunk.source_locator,
                    EDGE_META_DERIVED: PROVENANCE_MODEL_DERIVED,
                    EDGE_META_VERIFIED: PROVENANCE_UNVERIFIED,
                    EDGE_META_CHUNK: chunk.chunk_id,
                    EDGE_META_MODEL: self.model,
                    EDGE_META_ANSWER: key,
                }
                edges.append(GraphEdge(source, target, kind, metadata))
        return edges

    def _judge(self, proposal: Proposal | None, text: GroundedText) -> tuple[str, str, str] | str:
        """Return ends and type of an edge, or why there is none."""
        if proposal is None:
            return "shape"
        source, problem = cleaned_name(proposal.source)
        target, other_problem = cleaned_name(proposal.target)
        if problem or other_problem:
            return problem or other_problem
        if any(self._names_external(name) for name in (source, target, proposal.kind)):
            return "external"
        kind, problem = folded_type(proposal.kind)
        if problem:
            return problem
        if self._names_external(kind):
            return "external"
        if proposal.negative:
            return "negated"
        codes = self._vocabulary.known_entity(source), self._vocabulary.known_entity(target)
        ends = codes[0] or source, codes[1] or target
        if fold_text(ends[0]).strip() == fold_text(ends[1]).strip():
            return "self_loop"
        if not text.holds(source, codes[0]) or not text.holds(target, codes[1]):
            return "not_in_text"
        if text.denied((source, codes[0]), (target, codes[1])):
            return "negated"
        return ends[0], ends[1], kind

    def _names_external(self, name: str) -> bool:
        if name not in self._external:
            self._external[name] = self._vocabulary.names_external(name) or (
                self._gate is not None and self._gate.detect(name).external_entity is not None
            )
        return self._external[name]


def _open_chunks(chunks: Iterable[GraphChunk]) -> list[GraphChunk]:
    """Return the chunks a model may see, in the order of document and number; RESTRICTED documents leave whole."""
    given = list(chunks)
    secret = {chunk.doc_id for chunk in given if is_restricted(getattr(chunk, "sensitivity", "INTERNAL"))}
    chosen = [
        GraphChunk(
            doc_id=chunk.doc_id,
            chunk_id=getattr(chunk, "chunk_id", ""),
            seq=getattr(chunk, "seq", position),
            entity=getattr(chunk, "entity", "") or "",
            text=chunk.text,
            source_locator=chunk.source_locator or f"{chunk.doc_id}#chunk",
            sensitivity=getattr(chunk, "sensitivity", "INTERNAL"),
            version=getattr(chunk, "version", 0),
        )
        for position, chunk in enumerate(given)
        if chunk.doc_id not in secret
    ]
    return sorted(chosen, key=lambda chunk: (chunk.doc_id, chunk.seq))


def _number(reply: object, name: str) -> int:
    value = getattr(reply, name, 0)
    return value if isinstance(value, int) and value > 0 else 0


class _Asking:
    """Questions under way, each in a thread that may be abandoned: a provider that hangs must hold nobody up."""

    def __init__(self, put: Callable[[_Question], ChatReply], time_limit_s: float) -> None:
        self._put = put
        self._time_limit_s = time_limit_s
        self._outcomes: queue.SimpleQueue[tuple[int, ChatReply | BaseException]] = queue.SimpleQueue()
        self._started = 0
        self.open: dict[int, tuple[_Question, float]] = {}

    def start(self, question: _Question) -> None:
        number = self._started = self._started + 1
        self.open[number] = question, time.monotonic() + self._time_limit_s
        threading.Thread(target=self._run, args=(number, question), name=f"question-{number}", daemon=True).start()

    def _run(self, number: int, question: _Question) -> None:
        try:
            outcome: ChatReply | BaseException = self._put(question)
        except BaseException as error:
            outcome = error
        self._outcomes.put((number, outcome))

    def wait(self) -> list[tuple[_Question, ChatReply | BaseException]]:
        """Return what has come since the last call, or what ran out of time; at least one."""
        done: list[tuple[_Question, ChatReply | BaseException]] = []
        while not done:
            until = min(deadline for _, deadline in self.open.values())
            try:
                number, outcome = self._outcomes.get(timeout=max(until - time.monotonic(), 0.0))
                while True:
                    if number in self.open:
                        done.append((self.open.pop(number)[0], outcome))
                    number, outcome = self._outcomes.get_nowait()
            except queue.Empty:
                pass
            now = time.monotonic()
            late = [number for number, (_, deadline) in self.open.items() if deadline <= now]
            done.extend((self.open.pop(number)[0], TimeoutError()) for number in late)
        return done
