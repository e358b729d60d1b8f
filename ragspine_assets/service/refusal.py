"""Why a request is not answered, in one sentence (SPEC 8.4)."""

from __future__ import annotations

from ragspine_assets.errors import RagspineError


class Refusal(RagspineError):
    """A request that is not answered. The sentence goes to whoever asked: it holds no word of a document.

    Args:
        status: as HTTP numbers it.
        sentence: what is wrong, and what to do.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
