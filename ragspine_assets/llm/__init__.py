"""Language models: the protocol, and adapters over the official SDKs (extra `llm`)."""

from ragspine_assets.llm.provider import ChatReply, LLMProvider, ProviderError, make_provider

__all__ = ["ChatReply", "LLMProvider", "ProviderError", "make_provider"]
