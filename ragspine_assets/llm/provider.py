"""What a language model is to this project: one method, one kind of answer, one kind of error (SPEC 5.6, 7)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from ragspine_assets.errors import RagspineError, SettingError

MODEL_ENV = "RAGSPINE_LLM_MODEL"
"""Environment variable that names the model."""
BASE_URL_ENV = "RAGSPINE_LLM_BASE_URL"
"""Environment variable that names the endpoint, where it is not the provider's own."""
API_KEY_ENV = "RAGSPINE_LLM_API_KEY"
"""Environment variable with the key for that endpoint; only where none is named is the provider's own variable read."""

Message = Mapping[str, str]
"""One turn of a conversation: `role` (`system`, `user` or `assistant`) and `content`."""

_APIS = ("openai", "anthropic")
_OWN_KEY_ENV = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_NO_KEY = "not-needed"


@dataclass(frozen=True)
class ChatReply:
    """What a model answered.

    Attributes:
        text: the answer, as it came.
        model: the model that the endpoint says has answered; may be empty.
        input_tokens: tokens of the question, as the endpoint counts them; 0 where it does not say.
        output_tokens: tokens of the answer; likewise.
    """

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class ProviderError(RagspineError, RuntimeError):
    """A model could not be asked, or did not answer; the message holds nothing of question or answer.

    Attributes:
        reason: a short name to count by: `timeout`, `unreachable`, `rate_limited`, `http_400`, `malformed`, ...
    """

    def __init__(self, message: str, reason: str = "provider_error") -> None:
        super().__init__(message)
        self.reason = reason


@runtime_checkable
class LLMProvider(Protocol):
    """Anything that answers a conversation."""

    def chat(self, messages: Sequence[Message], **options: object) -> ChatReply:
        """Return the answer to a conversation.

        Args:
            messages: the turns, oldest first.
            **options: `max_tokens` (int), `temperature` (float) and `response_schema` (a JSON schema that the answer
                should obey where the endpoint can see to that); an implementation ignores what it does not know.

        Raises:
            ProviderError: there is no answer.
        """
        ...


def make_provider(
    model: str | None = None,
    *,
    base_url: str | None = None,
    time_limit_s: float = 60.0,
    attempts: int = 3,
    max_wait_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> LLMProvider | None:
    """Return the provider that serves a model, or None where no model is named.

    `openai:NAME` and `anthropic:NAME` say whose interface the endpoint speaks; without it, names that begin with
    `claude` mean Anthropic's, all others OpenAI's, which vLLM, Ollama, llama.cpp and the like speak too. Keys come from
    the environment only: `RAGSPINE_LLM_API_KEY`, or, for the provider's own endpoint and no other, `OPENAI_API_KEY` or
    `ANTHROPIC_API_KEY`. An endpoint of one's own may need none.

    Args:
        model: the model; None reads `RAGSPINE_LLM_MODEL`.
        base_url: the endpoint; None reads `RAGSPINE_LLM_BASE_URL`, empty means the provider's own.
        time_limit_s: seconds that one attempt may take as a whole, however slowly bytes come.
        attempts: how often a question is put when the endpoint is busy, failing or silent.
        max_wait_s: longest pause between two attempts, in seconds; an endpoint that asks for more is given up.
        environment: where names and keys are read from; the process's environment when None.

    Raises:
        ValueError: a setting has a wrong value; the message says what is allowed.
        ProviderError: the software for it is not installed, or there is no key; the message says what to do.
    """
    environment = os.environ if environment is None else environment
    name = (environment.get(MODEL_ENV, "") if model is None else model).strip()
    url = (environment.get(BASE_URL_ENV, "") if base_url is None else base_url).strip()
    if not name:
        return None
    if time_limit_s <= 0 or attempts < 1 or max_wait_s < 0:
        raise SettingError("time_limit_s must be above 0 seconds, attempts at least 1, max_wait_s at least 0 seconds")
    require_endpoint(url)
    api, _, rest = name.partition(":")
    if api.casefold() in _APIS and rest:
        api, name = api.casefold(), rest
    else:
        api = "anthropic" if name.casefold().startswith("claude") else "openai"
    key = environment.get(API_KEY_ENV, "").strip()
    if not key and not url:
        key = environment.get(_OWN_KEY_ENV[api], "").strip()
    if not key and not url:
        raise ProviderError(
            f"the model needs a key: set {_OWN_KEY_ENV[api]}, or {BASE_URL_ENV} to an endpoint of your own", "no_key"
        )
    from ragspine_assets.llm.adapters import AnthropicProvider, OpenAIProvider

    adapter = AnthropicProvider if api == "anthropic" else OpenAIProvider
    return adapter(
        name,
        api_key=key or _NO_KEY,
        base_url=url,
        time_limit_s=time_limit_s,
        attempts=attempts,
        max_wait_s=max_wait_s,
    )


def require_endpoint(url: str) -> None:
    """Refuse what is neither empty nor an address of an endpoint.

    Raises:
        ValueError: the message says what is allowed.
    """
    if url and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc):
        raise SettingError(f"{BASE_URL_ENV} must be an http or https address such as http://127.0.0.1:8000/v1")
    if urlsplit(url).username is not None:
        raise SettingError(
            f"{BASE_URL_ENV} must hold no user and no password, since it is shown: set {API_KEY_ENV} instead"
        )
