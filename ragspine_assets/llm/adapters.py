"""Providers over the official SDKs of OpenAI and Anthropic, which are imported when one is made (extra `llm`).

The SDKs' own retries are off: here one attempt has one time limit, from the first byte sent to the last byte received,
so that an endpoint that drips bytes cannot hold a worker for ever.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import ClassVar, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from ragspine_assets.errors import is_cancel
from ragspine_assets.llm.provider import API_KEY_ENV, BASE_URL_ENV, ChatReply, Message, ProviderError

Result = TypeVar("Result")

DEFAULT_MAX_TOKENS = 1024
"""Longest answer asked for where the caller does not say, in tokens."""

_BUSY = {408, 409, 429}
_FIRST_PAUSE_S = 0.5
_SPELLINGS = {"response_schema": ("response_format", "json_schema", "output_config", "output_format", "schema")}


_SENT = frozenset(
    {
        "host", "connection", "content-type", "content-length", "transfer-encoding", "accept", "accept-encoding",
        "user-agent", "anthropic-version", "anthropic-beta",
    }
)  # fmt: skip
"""Headers of a request that hold nothing of this service; beside them goes the key, and nothing else."""


class _Request(Protocol):
    """What the SDKs' transports hand to a hook before anything is sent."""

    url: object
    headers: MutableMapping[str, str]


class _Transient(ProviderError):
    """No answer this time; another attempt may succeed."""

    def __init__(self, message: str, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, reason)
        self.retry_after_s = retry_after_s


class _Unsupported(Exception):
    """The endpoint refuses a parameter and can be asked again without it."""


class _Raised(NamedTuple):
    error: BaseException


async def _contained(work: Coroutine[object, object, Result]) -> Result | _Raised:
    """Wait for work; what would end the event loop, such as ``sys.exit`` in a library, is handed over instead."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return _Raised(error)


class _Loop:
    """One event loop in a thread of its own: what a thread cannot stop, a loop can cancel."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[object, object, Result], limit_s: float) -> Result:
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="llm", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(_contained(work), limit_s), self._loop)
        try:
            outcome = future.result()
        except BaseException:
            future.cancel()
            raise
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome


class _SdkProvider(ABC):
    """What both adapters share: attempts, pauses, time limits, and what an endpoint was found not to support.

    An SDK reads keys, endpoints, headers and profiles from the environment as well. Whatever it has read, a request goes to
    the one endpoint, with the one key and no other header that could hold something; a redirect is not followed, and plain
    http goes through no proxy, which would read it.

    Args:
        model: name of the model, as the endpoint knows it.
        api_key: the key for this endpoint; never shown.
        base_url: the endpoint; empty for the provider's own.
        time_limit_s: seconds one attempt may take.
        attempts: how often a question is put.
        max_wait_s: longest pause between two attempts, in seconds.

    Raises:
        ProviderError: the SDK is not installed.
    """

    package: ClassVar[str]
    own_endpoint: ClassVar[str]

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str = "",
        time_limit_s: float = 60.0,
        attempts: int = 3,
        max_wait_s: float = 60.0,
    ) -> None:
        self.model = model
        self.endpoint = base_url or self.own_endpoint
        self._time_limit_s = time_limit_s
        self._attempts = attempts
        self._max_wait_s = max_wait_s
        self._unsupported: frozenset[str] = frozenset()
        self._loop = _Loop()
        try:
            self._sdk = importlib.import_module(self.package)
        except ImportError:
            raise ProviderError(
                f"the package {self.package} is not installed; install this project with its extra: [llm]", "no_package"
            ) from None
        # At DEBUG the SDKs and their transport log whole requests, and these quote documents.
        for name in (self.package, f"{self.package}._base_client", "httpx", "httpx2", "httpcore", "httpcore2"):
            logger = logging.getLogger(name)
            if logger.getEffectiveLevel() < logging.INFO:
                logger.setLevel(logging.INFO)
        self._client = self._connect(self._sdk, api_key, self._transport(api_key))

    def _transport(self, api_key: str) -> object:
        endpoint = _origin(self.endpoint)

        async def keep_to_the_endpoint(request: _Request) -> None:
            if _origin(str(request.url)) != endpoint:
                raise ProviderError("the question was about to go to another endpoint, and was not sent", "elsewhere")
            for name, value in list(request.headers.items()):
                if name.casefold() not in _SENT and value not in (api_key, f"Bearer {api_key}"):
                    del request.headers[name]

        return self._sdk.DefaultAsyncHttpxClient(
            follow_redirects=False,
            trust_env=endpoint[0] == "https",
            timeout=self._time_limit_s,
            event_hooks={"request": [keep_to_the_endpoint]},
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def chat(self, messages: Sequence[Message], **options: object) -> ChatReply:
        """Return the answer to a conversation, see `LLMProvider.chat`."""
        retrying = Retrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_attempt(self._attempts),
            wait=self._pause,
            reraise=True,
        )
        return retrying(self._attempt, messages, options)

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, _Transient) else None
        own = wait_random_exponential(multiplier=_FIRST_PAUSE_S, max=self._max_wait_s)(state)
        return min(own, self._max_wait_s) if asked is None else asked

    def _attempt(self, messages: Sequence[Message], options: Mapping[str, object]) -> ChatReply:
        # One endpoint may refuse several parameters, each with an error of its own.
        for _ in range(4):
            kept = {name: value for name, value in options.items() if name not in self._unsupported}
            try:
                return self._loop.run(self._ask(messages, kept), self._time_limit_s)
            except TimeoutError:
                raise _Transient(f"no answer within {self._time_limit_s:g} s", "timeout") from None
            except ProviderError:
                raise
            except BaseException as error:
                if is_cancel(error):
                    raise
                failure = self._failure(error, kept)
            if isinstance(failure, ProviderError):
                raise failure
        raise ProviderError("the endpoint refuses the question in every form", "http_400")

    def _failure(self, error: BaseException, options: Mapping[str, object]) -> ProviderError | _Unsupported:
        sdk = self._sdk
        if isinstance(error, sdk.APIStatusError):
            status = int(getattr(error, "status_code", 0))
            if status in _BUSY or status >= 500:
                response = getattr(error, "response", None)
                return self._busy(status, dict(response.headers) if response is not None else {})
            refused = self._refused_parameter(str(error).casefold(), options) if status in {400, 422} else None
            if refused is not None:
                self._unsupported |= {refused}
                return _Unsupported()
            return ProviderError(f"the endpoint {_refusal(status)}", f"http_{status}")
        if isinstance(error, sdk.APITimeoutError):
            return _Transient(f"no answer within {self._time_limit_s:g} s", "timeout")
        if isinstance(error, sdk.APIConnectionError):
            return _Transient("the endpoint cannot be reached, or hung up while it answered", "unreachable")
        return ProviderError(f"the endpoint's answer cannot be read ({type(error).__name__})", "malformed")

    def _busy(self, status: int, headers: Mapping[str, str]) -> ProviderError:
        reason = "rate_limited" if status == 429 else f"http_{status}"
        asked = _retry_after_s({name.casefold(): value for name, value in headers.items()})
        message = f"the endpoint answered with status {status}"
        if asked is not None and asked > self._max_wait_s:
            return ProviderError(f"{message} and asks to wait {asked:.0f} s", reason)
        return _Transient(message, reason, asked)

    def _refused_parameter(self, message: str, options: Mapping[str, object]) -> str | None:
        """Return the option that an endpoint does not take: the one it names, else the one most often unknown."""
        named = [name for name in options if any(word in message for word in (name, *_SPELLINGS.get(name, ())))]
        droppable = [name for name in (*named, "response_schema") if name in options]
        return droppable[0] if droppable else None

    @abstractmethod
    def _connect(self, sdk: ModuleType, api_key: str, transport: object) -> object: ...

    @abstractmethod
    async def _ask(self, messages: Sequence[Message], options: Mapping[str, object]) -> ChatReply: ...


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _refusal(status: int) -> str:
    if 300 <= status < 400:
        return f"points elsewhere with status {status}, which is not followed; set {BASE_URL_ENV} to where it is"
    refused = f"refused the question with status {status}"
    return f"{refused}; its key is {API_KEY_ENV} where {BASE_URL_ENV} is set" if status in {401, 403} else refused


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the pause an endpoint asks for, in seconds, however it says so."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            return max(float(value) * scale, 0.0)
        except ValueError:
            pass
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            continue
        return max((when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)
    return None


def _count(usage: object, *names: str) -> int:
    for name in names:
        value = getattr(usage, name, None)
        if isinstance(value, int):
            return value
    return 0


class OpenAIProvider(_SdkProvider):
    """A model behind OpenAI's chat interface: theirs, or vLLM, Ollama, llama.cpp and the like by `base_url`."""

    package = "openai"
    own_endpoint = "https://api.openai.com/v1"

    def _connect(self, sdk: ModuleType, api_key: str, transport: object) -> object:
        return sdk.AsyncOpenAI(
            api_key=api_key, base_url=self.endpoint, max_retries=0, timeout=self._time_limit_s, http_client=transport
        )

    def _refused_parameter(self, message: str, options: Mapping[str, object]) -> str | None:
        # Newer models want the same number under another name.
        if "max_completion_tokens" in message and "max_completion_tokens" not in self._unsupported:
            return "max_completion_tokens"
        return super()._refused_parameter(message, options)

    async def _ask(self, messages: Sequence[Message], options: Mapping[str, object]) -> ChatReply:
        wanted: dict[str, object] = {}
        limit = "max_completion_tokens" if "max_completion_tokens" in self._unsupported else "max_tokens"
        if "max_tokens" in options:
            wanted[limit] = options["max_tokens"]
        if "temperature" in options:
            wanted["temperature"] = options["temperature"]
        if options.get("response_schema"):
            wanted["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": options["response_schema"]},
            }
        client = self._client
        completion = await client.chat.completions.create(  # pyright: ignore[reportAttributeAccessIssue]
            model=self.model, messages=[dict(message) for message in messages], **wanted
        )
        message = completion.choices[0].message
        text = message.content if isinstance(message.content, str) else getattr(message, "refusal", None) or ""
        usage = completion.usage
        return ChatReply(
            text,
            str(completion.model or self.model),
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
        )


class AnthropicProvider(_SdkProvider):
    """A model behind Anthropic's messages interface."""

    package = "anthropic"
    own_endpoint = "https://api.anthropic.com"

    def _connect(self, sdk: ModuleType, api_key: str, transport: object) -> object:
        return sdk.AsyncAnthropic(
            api_key=api_key, base_url=self.endpoint, max_retries=0, timeout=self._time_limit_s, http_client=transport
        )

    async def _ask(self, messages: Sequence[Message], options: Mapping[str, object]) -> ChatReply:
        wanted: dict[str, object] = {}
        rules = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        if rules:
            wanted["system"] = rules
        if options.get("response_schema"):
            wanted["output_config"] = {"format": {"type": "json_schema", "schema": options["response_schema"]}}
        client = self._client
        reply = await client.messages.create(  # pyright: ignore[reportAttributeAccessIssue]
            model=self.model,
            max_tokens=options.get("max_tokens", DEFAULT_MAX_TOKENS),
            messages=[dict(message) for message in messages if message["role"] != "system"],
            **wanted,
        )
        text = "".join(block.text for block in reply.content if block.type == "text")
        return ChatReply(
            text,
            str(reply.model or self.model),
            _count(reply.usage, "input_tokens"),
            _count(reply.usage, "output_tokens"),
        )
