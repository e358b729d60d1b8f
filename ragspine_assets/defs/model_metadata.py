"""What a model cost and what became of its answers, for the UI.

Belongs here: turning reports of the graph into metadata values, numbers wherever Dagster should plot them over runs. Does
not belong here: finding anything out. Nothing here quotes a document or a model: names and types that a model gives are
words of a document whose label may be raised later, and the event log keeps what it has (SPEC 6.1).
"""

from collections.abc import Mapping

from ragspine_assets.graph import CONTROLLED_TYPES, GraphReport, LLMRelationExtractor, RelationExtractor, asks_a_model
from ragspine_assets.graph.values import CO_OCCURS_WITH

_STOPPED = {
    "max_llm_calls": "the limit of questions is reached; the next run goes on",
    "token_budget": "the token budget is reached; the next run goes on",
    "endpoint_silent": "the model does not answer; the next run goes on",
    "withheld": "texts were withheld: a label was raised meanwhile, or the store was busy; the next run goes on",
    "dry_run": "a dry run: nothing was asked",
}

Value = str | int


def model_metadata(
    spec: str, why_none: str, extractor: RelationExtractor | None, report: GraphReport
) -> Mapping[str, Value]:
    """Return the metadata of extraction, model edges and review.

    Args:
        spec: the extractor that was asked for.
        why_none: why there is no provider, where there is none.
        extractor: what was used.
        report: what became of it.
    """
    found: dict[str, Value] = {"relation extractor": spec or "none"}
    if extractor is None and asks_a_model(spec):
        found["relation extractor"] = f"{spec} was asked for; none was used, since {why_none}"
    refused = dict(report.refused)
    if isinstance(extractor, LLMRelationExtractor):
        cost = extractor.report
        for reason, number in cost.refused.items():
            refused[reason] = refused.get(reason, 0) + number
        found |= {
            "llm model": extractor.model,
            "llm chunks": cost.chunks,
            "llm calls": cost.calls,
            "llm answers": cost.answered,
            "llm cache hits": cost.cache_hits,
            "llm input tokens": cost.input_tokens,
            "llm output tokens": cost.output_tokens,
            "llm chunks left": cost.chunks_left,
            "llm calls left": cost.calls_left,
            "llm tokens left": cost.tokens_left,
        }
        if cost.stopped:
            found["llm stopped"] = _STOPPED[cost.stopped]
    found |= {f"refused: {reason}": number for reason, number in sorted(refused.items())}
    found |= {
        "model edges": sum(report.model.edges.values()),
        "model edges added": sum(report.model.edges_added.values()),
        "model edges removed": sum(report.model.edges_removed.values()),
        "model evidence": sum(report.model.evidence.values()),
        "model nodes": report.model.nodes,
        "model edges that wait for review": report.review.waiting,
        "decisions: accepted": report.review.accepted,
        "decisions: rejected": report.review.rejected,
        "decisions that match no edge": report.review.unmatched,
    }
    return found


def shown_types(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts by edge type, those of types that are not ours under one name: they may be a document's words."""
    shown: dict[str, int] = {}
    for kind, number in counts.items():
        name = kind if kind in CONTROLLED_TYPES or kind == CO_OCCURS_WITH else "other"
        shown[name] = shown.get(name, 0) + number
    return shown


def model_line(shown: Mapping[str, object]) -> str:
    """Return in one line what a model was asked and what became of it, or why nothing was asked; '' where none is to be.

    Args:
        shown: the metadata that `model_metadata` made.
    """
    extractor, model = str(shown.get("relation extractor", "")), shown.get("llm model")
    if model is None:
        return (
            f"nothing was asked, {extractor.partition('none was used, ')[2]}" if "none was used, " in extractor else ""
        )

    def number(name: str) -> int:
        value = shown.get(name, 0)
        return value if isinstance(value, int) else 0

    left = (
        f"{number('llm chunks left'):,} chunks wait: {number('llm calls left'):,} questions of about "
        f"{number('llm tokens left'):,} tokens in all"
    )
    stopped = str(shown.get("llm stopped", ""))
    if stopped == _STOPPED["dry_run"]:
        return f"{stopped} of {model}; {left}"
    refusals = [name for name in shown if name.startswith("refused: ") and not name.startswith("refused: provider: ")]
    refused = sum(map(number, refusals))
    spent = number("llm input tokens") + number("llm output tokens")
    line = (
        f"{model} was asked {number('llm calls'):,} questions and answered {number('llm answers'):,}, "
        f"{number('llm cache hits'):,} were known already; {spent:,} tokens spent, {number('model edges'):,} unverified "
        f"edges kept, {refused:,} proposals or answers refused"
    )
    if number("llm chunks left"):
        line += f"; {left}" + (f" ({stopped})" if stopped else "")
    return line
