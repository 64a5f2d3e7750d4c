"""What an Ollama server is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.errors import UsageError
from app.settings import SamplingSettings, Secret
from tests.backends.ollama.asking import QUESTION, ask
from tests.backends.ollama.server import FakeOllama, serving
from tests.home import qchat_home

__all__ = ["qchat_home"]

pytestmark = pytest.mark.usefixtures("qchat_home")


def sent(request: Any = QUESTION, **settings: Any) -> dict[str, Any]:
    with serving(FakeOllama()) as fake:
        asked = ask(fake, request, settings=settings)
        assert asked.error is None
        [body] = fake.asked("/api/chat")
        assert isinstance(body, dict)
        return body


def test_nothing_is_sent_that_nobody_asked_for() -> None:
    """`truncate` and `shift` are false: their defaults drop the beginning of a conversation without a word."""
    unset = replace(QUESTION, sampling=SamplingSettings(*[None] * 8), max_tokens=-1)
    assert sent(unset) == {
        "model": "qwen3:8b",
        "messages": [{"role": "user", "content": "why is the sky blue?"}],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": -1},
    }


def test_every_setting_reaches_the_server() -> None:
    sampling = SamplingSettings(0.0, 20, 0.9, 0.05, 1.1, 0.5, 0.25, 7)
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    body = sent(replace(QUESTION, sampling=sampling, max_tokens=9, thinking=False, tools=tools), ctx=8192)
    assert body["options"] == {
        "num_predict": 9,
        "num_ctx": 8192,
        "temperature": 0.0,
        "top_k": 20,
        "top_p": 0.9,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "seed": 7,
    }
    assert body["think"] is False and body["tools"] == tools


def test_what_the_table_says_comes_last_and_headers_go_along() -> None:
    own = {"keep_alive": "10m", "shift": True, "options": {"num_batch": 64, "top_k": 1}}
    request = replace(QUESTION, sampling=replace(QUESTION.sampling, top_k=5, top_p=0.5))
    with serving(FakeOllama()) as fake:
        table = {"body": own, "headers": {"X-Team": Secret("blue")}, "key": Secret("sk-1")}
        assert ask(fake, request, settings=table).error is None
        [body] = fake.asked("/api/chat")
        assert body["keep_alive"] == "10m" and body["shift"] is True and body["truncate"] is False
        assert body["options"] == {"num_predict": 100, "temperature": 0.0, "top_k": 1, "top_p": 0.5, "num_batch": 64}
        assert all(headers["x-team"] == "blue" for headers in fake.headers)
        assert all(headers["authorization"] == "Bearer sk-1" for headers in fake.headers)


def test_a_conversation_with_calls_has_the_server_s_own_shape() -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "two cities",
            "tool_calls": [
                {"type": "function", "function": {"name": "weather", "arguments": {"city": "Tokyo"}}},
                {"type": "function", "function": {"name": "time", "arguments": '{"city": "Oslo"}'}},
            ],
        },
        {"role": "tool", "content": "11 degrees"},
        {"role": "tool", "content": "noon"},
        {"role": "tool", "name": "other", "content": "x"},
        {"role": "user", "content": "half a pair: \ud83d"},
    ]
    assert sent(replace(QUESTION, messages=messages))["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "weather", "arguments": {"city": "Tokyo"}}},
                {"function": {"name": "time", "arguments": {"city": "Oslo"}}},
            ],
        },
        {"role": "tool", "content": "11 degrees", "tool_name": "weather"},
        {"role": "tool", "content": "noon", "tool_name": "time"},
        {"role": "tool", "content": "x", "tool_name": "other"},
        {"role": "user", "content": "half a pair: \ufffd"},
    ]


@pytest.mark.parametrize("request_", [replace(QUESTION, raw_prompt="x"), replace(QUESTION, continue_last=True)])
def test_what_the_protocol_cannot_ask_is_refused_and_not_sent(request_: Any) -> None:
    with serving(FakeOllama()) as fake:
        assert isinstance(ask(fake, request_).error, UsageError)
        assert fake.asked("/api/chat") == []


def test_text_arrives_as_it_was_typed() -> None:
    text = 'ünï "quoted"\n\u2028 <|im_end|> 👩‍👧'
    assert sent(replace(QUESTION, messages=[{"role": "user", "content": text}]))["messages"][0]["content"] == text
