"""The terminal says what a model was asked, or why nothing was (SPEC 5.6)."""

import pytest

from ragspine_assets.defs.model_metadata import model_line

COST = {
    "relation extractor": "llm", "llm model": "openai:m", "llm chunks": 30, "llm calls": 12, "llm answers": 10,
    "llm cache hits": 18, "llm input tokens": 1000, "llm output tokens": 234, "llm chunks left": 0, "llm calls left": 0,
    "llm tokens left": 0, "refused: not_in_text": 3, "refused: provider: http_500": 2, "model edges": 7,
}  # fmt: skip
ASKED = (
    "openai:m was asked 12 questions and answered 10, 18 were known already; 1,234 tokens spent, 7 unverified edges kept, "
    "3 proposals or answers refused"
)


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        ({"relation extractor": "none"}, ""),
        ({"relation extractor": "deterministic"}, ""),
        (
            {"relation extractor": "llm was asked for; none was used, since no model is named: set RAGSPINE_LLM_MODEL"},
            "nothing was asked, since no model is named: set RAGSPINE_LLM_MODEL",
        ),
        (
            COST,
            ASKED,
        ),
        (
            {**COST, "llm chunks left": 9, "llm calls left": 8, "llm tokens left": 4000, "llm stopped": "why"},
            f"{ASKED}; 9 chunks wait: 8 questions of about 4,000 tokens in all (why)",
        ),
        (
            {
                **COST, "llm chunks left": 9, "llm calls left": 8, "llm tokens left": 4000,
                "llm stopped": "a dry run: nothing was asked",
            },
            "a dry run: nothing was asked of openai:m; 9 chunks wait: 8 questions of about 4,000 tokens in all",
        ),
    ],
)  # fmt: skip
def test_the_line_says_what_was_asked_spent_and_saved_or_why_nothing_was(shown: dict[str, object], line: str) -> None:
    assert model_line(shown) == line
