"""What a model cost and what became of its answers, for the UI.

Belongs here: turning reports of the graph into metadata values, numbers wherever Dagster should plot them over runs. Does
not belong here: finding anything out. Nothing here quotes a document or a model.
"""

from collections.abc import Mapping

from dagster import TableMetadataValue

from ragspine_assets.defs.tables import table
from ragspine_assets.graph import GraphReport, LLMRelationExtractor, RelationExtractor, asks_a_model

_STOPPED = {
    "max_llm_calls": "the limit of questions is reached; the next run goes on",
    "token_budget": "the token budget is reached; the next run goes on",
    "endpoint_silent": "the model does not answer; the next run goes on",
    "dry_run": "a dry run: nothing was asked",
}

Value = str | int | TableMetadataValue


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
        "model nodes": report.model.nodes,
        "model edges that wait for review": report.review.waiting,
        "decisions: accepted": report.review.accepted,
        "decisions: rejected": report.review.rejected,
        "decisions that match no edge": report.review.unmatched,
    }
    if report.model.edges:
        found["unverified edges by type"] = table(
            [
                {
                    "type": kind,
                    "edges": number,
                    "evidence": report.model.evidence.get(kind, 0),
                    "added": report.model.edges_added.get(kind, 0),
                    "removed": report.model.edges_removed.get(kind, 0),
                }
                for kind, number in sorted(report.model.edges.items())
            ],
            ("type", "edges", "evidence", "added", "removed"),
        )
    return found
