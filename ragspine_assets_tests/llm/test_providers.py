"""Providers against a real endpoint on loopback (SPEC 5.6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from ragspine_assets.llm import ChatReply, LLMProvider, ProviderError, make_provider

from .endpoint import Behaviour, Endpoint, Fail, Hang, Raw, Say

pytest.importorskip("openai")
pytest.importorskip("anthropic")

MODELS = ("openai:m", "anthropic:m")
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
ASK = [{"role": "system", "content": "rules"}, {"role": "user", "content": "question"}]


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def provider(endpoint: Endpoint, model: str, **settings: float) -> LLMProvider:
    url = endpoint.url + ("/v1" if model.startswith("openai") else "")
    made = make_provider(model, base_url=url, environment={}, **settings)  # pyright: ignore[reportArgumentType]
    assert made is not None
    return made


@pytest.mark.parametrize("model", MODELS)
def test_a_model_answers_with_its_name_and_its_tokens(model: str) -> None:
    with Endpoint([Say("hello", 21, 5)]) as endpoint:
        assert provider(endpoint, model).chat(ASK) == ChatReply("hello", "double-1", 21, 5)
    (request,) = endpoint.requests
    assert "rules" in request.prompt
    assert "question" in request.prompt
    assert request.body["model"] == "m"


@pytest.mark.parametrize("model", MODELS)
def test_a_schema_is_asked_for_where_the_endpoint_takes_one(model: str) -> None:
    with Endpoint(["{}"]) as endpoint:
        provider(endpoint, model).chat(ASK, response_schema=SCHEMA, max_tokens=33, temperature=0)
    body = endpoint.requests[0].body
    assert body["max_tokens"] == 33
    assert SCHEMA in [
        body.get("output_config", {}).get("format", {}).get("schema"),  # pyright: ignore[reportAttributeAccessIssue]
        body.get("response_format", {}).get("json_schema", {}).get("schema"),  # pyright: ignore[reportAttributeAccessIssue]
    ]


@pytest.mark.parametrize("model", MODELS)
def test_an_endpoint_that_takes_no_schema_is_asked_without_it_and_not_offered_one_again(model: str) -> None:
    with Endpoint([Fail(400), "one", "two"]) as endpoint:
        asked = provider(endpoint, model)
        assert asked.chat(ASK, response_schema=SCHEMA).text == "one"
        assert asked.chat(ASK, response_schema=SCHEMA).text == "two"
    offered = ["response_format" in request.body or "output_config" in request.body for request in endpoint.requests]
    assert offered == [True, False, False]


def test_parameters_that_an_endpoint_names_as_unsupported_are_left_out_or_spelt_its_way() -> None:
    refusals = [
        Fail(400, body='{"error": {"message": "use max_completion_tokens instead of max_tokens"}}'),
        Fail(400, body='{"error": {"message": "temperature does not support 0"}}'),
        "fine",
    ]
    with Endpoint(refusals) as endpoint:
        assert provider(endpoint, MODELS[0]).chat(ASK, max_tokens=9, temperature=0).text == "fine"
    last = endpoint.requests[-1].body
    assert last["max_completion_tokens"] == 9
    assert not {"max_tokens", "temperature"} & last.keys()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_a_busy_endpoint_is_asked_again(model: str, status: int) -> None:
    with Endpoint([Fail(status, {"retry-after": "0"}), "there"]) as endpoint:
        assert provider(endpoint, model).chat(ASK).text == "there"


@pytest.mark.parametrize("model", MODELS)
def test_the_pause_an_endpoint_asks_for_is_kept(model: str) -> None:
    with Endpoint([Fail(429, {"retry-after": "0.7"}), "there"]) as endpoint:
        start = time.monotonic()
        assert provider(endpoint, model).chat(ASK).text == "there"
    assert 0.7 <= time.monotonic() - start < 60


def test_a_pause_may_be_asked_for_as_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    with Endpoint([Fail(429, {"retry-after": soon}), "there"]) as endpoint:
        start = time.monotonic()
        assert provider(endpoint, MODELS[0]).chat(ASK).text == "there"
    assert 0.5 <= time.monotonic() - start < 60


def test_an_endpoint_that_asks_for_too_long_a_pause_is_given_up_at_once() -> None:
    with Endpoint([Fail(429, {"retry-after": "3600"})]) as endpoint:
        start = time.monotonic()
        with pytest.raises(ProviderError, match="asks to wait 3600 s") as caught:
            provider(endpoint, MODELS[0], max_wait_s=5).chat(ASK)
    assert caught.value.reason == "rate_limited"
    assert time.monotonic() - start < 60
    assert len(endpoint.requests) == 1


def failing(model: str, script: Sequence[Behaviour], **settings: float) -> tuple[ProviderError, float, Endpoint]:
    with Endpoint(script) as endpoint:
        asked = provider(endpoint, model, max_wait_s=0.05, **settings)
        start = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            asked.chat(ASK)
        return caught.value, time.monotonic() - start, endpoint


@pytest.mark.parametrize("model", MODELS)
def test_an_endpoint_that_hangs_is_left_after_the_time_limit(model: str) -> None:
    error, took, endpoint = failing(model, [Hang()], time_limit_s=0.4, attempts=2)
    assert error.reason == "timeout"
    assert took < 3
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("model", MODELS)
def test_bytes_that_drip_do_not_prolong_the_time_limit(model: str) -> None:
    error, took, _ = failing(model, [Say("hello", drip_s=0.05)], time_limit_s=0.5, attempts=1)
    assert error.reason == "timeout"
    assert took < 2


@pytest.mark.parametrize("model", MODELS)
def test_an_endpoint_that_hangs_up_in_the_middle_is_asked_again_and_then_given_up(model: str) -> None:
    error, _, endpoint = failing(model, [Say("hello", cut=True)], attempts=2)
    assert error.reason == "unreachable"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b"[]", b'{"choices": []}', b'{"choices": null}'])
def test_bytes_that_are_no_answer_are_an_error_and_no_crash(model: str, body: bytes) -> None:
    error, _, _ = failing(model, [Raw(body)], attempts=1)
    assert error.reason in {"malformed", "unreachable"}


@pytest.mark.parametrize("model", MODELS)
def test_a_refused_key_is_not_tried_again_and_never_shown(model: str) -> None:
    with Endpoint([Fail(401, body='{"error": {"message": "question sk-secret"}}')]) as endpoint:
        url = endpoint.url + ("/v1" if model.startswith("openai") else "")
        asked = make_provider(model, base_url=url, environment={"RAGSPINE_LLM_API_KEY": "sk-secret"})
        assert asked is not None
        with pytest.raises(ProviderError, match="status 401") as caught:
            asked.chat(ASK)
    assert len(endpoint.requests) == 1
    assert "sk-secret" in str(endpoint.requests[0].headers)
    assert "secret" not in f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r} {asked!r}"


@pytest.mark.parametrize("model", MODELS)
def test_neither_question_nor_key_is_logged_at_any_level(model: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Endpoint(["hello"]) as endpoint:
        url = endpoint.url + ("/v1" if model.startswith("openai") else "")
        asked = make_provider(model, base_url=url, environment={"RAGSPINE_LLM_API_KEY": "sk-secret"})
        assert asked is not None
        asked.chat([{"role": "user", "content": "Zanzibarquux"}])
    assert "Zanzibarquux" in endpoint.requests[0].prompt
    assert "Zanzibarquux" not in caplog.text
    assert "sk-secret" not in caplog.text


def test_without_a_model_there_is_no_provider() -> None:
    assert make_provider(environment={}) is None
    assert make_provider("  ", environment={}) is None


def test_without_a_key_the_message_says_which_one() -> None:
    with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
        make_provider("gpt", environment={})
    with pytest.raises(ProviderError, match="ANTHROPIC_API_KEY"):
        make_provider("claude-x", environment={})


def test_the_environment_names_model_and_endpoint() -> None:
    made = make_provider(
        environment={"RAGSPINE_LLM_MODEL": "llama3:8b", "RAGSPINE_LLM_BASE_URL": "http://127.0.0.1:1/v1"}
    )
    assert repr(made) == "OpenAIProvider('llama3:8b')"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8000", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="RAGSPINE_LLM_BASE_URL"):
        make_provider("m", base_url=url, environment={})


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ProviderError, match=r"openai is not installed.*\[llm\]"):
        make_provider("m", base_url="http://127.0.0.1:1", environment={})


# -- where keys go ---------------------------------------------------------------------------------------------------------

KEYS = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-anthropic"}
OF_THE_SDKS = {
    **KEYS,
    "OPENAI_ORG_ID": "org-secret", "OPENAI_PROJECT_ID": "proj-secret", "OPENAI_ADMIN_KEY": "sk-admin",
    "ANTHROPIC_AUTH_TOKEN": "token-secret", "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: gateway-secret",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: gateway-secret", "OPENAI_WEBHOOK_SECRET": "hook-secret",
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("own", ["", "sk-own"])
def test_an_endpoint_of_ones_own_gets_its_own_key_and_nothing_else_that_the_environment_holds(
    model: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OF_THE_SDKS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAGSPINE_LLM_API_KEY", own)
    with Endpoint(["fine"]) as endpoint:
        made = make_provider(model, base_url=endpoint.url)
        assert made is not None
        assert made.chat(ASK).text == "fine"
    sent = str(endpoint.requests[0].headers)
    assert not [value for value in ("secret", "sk-openai", "sk-anthropic", "sk-admin") if value in sent]
    assert (own or "not-needed") in sent


@pytest.mark.parametrize("model", MODELS)
def test_an_endpoint_that_the_sdk_reads_from_the_environment_is_not_asked(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(["mine now"]) as stranger:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
            monkeypatch.setenv(name, stranger.url)
        made = make_provider(model, environment=KEYS)
        assert getattr(made, "endpoint", "").startswith("https://api.")
        assert str(made._client.base_url).startswith(("https://api.openai.com", "https://api.anthropic.com"))
    assert stranger.requests == []


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_message_says_so(model: str, status: int) -> None:
    with Endpoint(["mine now"]) as stranger:
        there = {"location": f"{stranger.url}/v1/chat/completions"}
        with Endpoint([Fail(status, there)]) as endpoint, pytest.raises(ProviderError, match="not followed") as caught:
            provider(endpoint, model).chat(ASK)
    assert caught.value.reason == f"http_{status}"
    assert stranger.requests == []


@pytest.mark.parametrize("model", MODELS)
def test_a_redirect_within_the_endpoint_is_not_followed_either(model: str) -> None:
    with Endpoint([Fail(307, {"location": "/other"}), "there"]) as endpoint, pytest.raises(ProviderError):
        provider(endpoint, model).chat(ASK)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_client_whose_address_was_changed_sends_nothing(model: str) -> None:
    with Endpoint(["mine now"]) as stranger, Endpoint(["fine"]) as endpoint:
        made = provider(endpoint, model)
        made._client.base_url = stranger.url
        with pytest.raises(ProviderError):
            made.chat(ASK)
    assert stranger.requests == []


@pytest.mark.parametrize("model", MODELS)
def test_plain_http_goes_through_no_proxy(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(["read by the proxy"]) as proxy, Endpoint(["fine"]) as endpoint:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert provider(endpoint, model).chat(ASK).text == "fine"
    assert proxy.requests == []


@pytest.mark.parametrize("url", ["http://user:word@127.0.0.1/v1", "https://user@example.com"])
def test_an_address_with_a_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="RAGSPINE_LLM_API_KEY") as caught:
        make_provider("m", base_url=url, environment={})
    assert "word" not in str(caught.value).replace("password", "")
