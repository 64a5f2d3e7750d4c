"""What is asked of a server, and what is asked instead when it refuses a part."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from app.backends.openai.request import encoded, is_overflow, request_body, without_limit, without_refused
from app.backends.remote.failure import Failure
from app.errors import ContextOverflowError, UsageError
from app.settings import SamplingSettings
from tests.backends.openai.replies import REQUEST

NOTHING = SamplingSettings(*[None] * 8)
EVERYTHING = SamplingSettings(0.0, 20, 0.9, 0.1, 1.1, 0.5, -0.5, 7)


def test_what_the_person_left_open_is_left_to_the_server() -> None:
    assert request_body(replace(REQUEST, sampling=NOTHING, max_tokens=-1), "m", {}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_everything_that_can_be_asked() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = replace(REQUEST, sampling=EVERYTHING, thinking=False, tools=tools, continue_last=True, stop=("x",))
    body = request_body(request, "m", {"top_p": 0.5, "extra": [1]})
    assert {name: body[name] for name in body if name not in ("model", "messages", "stream", "stream_options")} == {
        "temperature": 0.0,
        "top_k": 20,
        "top_p": 0.5,  # the person's own fields come last
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "seed": 7,
        "max_tokens": 100,
        "chat_template_kwargs": {"enable_thinking": False},
        "tools": tools,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "extra": [1],
    }


def test_a_conversation_has_no_old_thinking_and_its_calls_have_ids() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "é"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "reasoning_content": "secret thought", "tool_calls": [call, call]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "reasoning_content": "still at it", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
    ]
    sent = request_body(replace(REQUEST, messages=messages), "m", {})["messages"]
    assert "secret thought" not in json.dumps(sent)
    assert sent[5]["reasoning_content"] == "still at it"  # of the reply that goes on
    assert [each["id"] for message in sent for each in message.get("tool_calls", ())] == ["call_0", "call_1", "call_2"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["call_0", "call_1", "call_2"]
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == '{"a": "é"}'
    assert messages[1]["reasoning_content"] == "secret thought"  # the chat itself is as it was


def test_a_body_is_utf_8_whatever_is_in_it() -> None:  # S04
    assert encoded({"a": "\ud83d\udc3a \udc9d 漢"}) == '{"a": "🐺 � 漢"}'.encode()


def test_text_without_a_template_is_for_the_local_engine() -> None:
    with pytest.raises(UsageError, match="--raw"):
        request_body(replace(REQUEST, raw_prompt="x"), "m", {})


BODY = request_body(replace(REQUEST, sampling=EVERYTHING, thinking=True), "m", {"top_p": 0.5})


def refused(message: str, status: int = 400, **fields: Any) -> Failure:
    return Failure(status, json.dumps({"error": {"message": message, **fields}}))


@pytest.mark.parametrize(
    ("message", "field", "told"),
    [
        ("Unrecognized request argument supplied: chat_template_kwargs", "chat_template_kwargs", "no thinking switch"),
        ("[{'loc': ('body', 'stream_options'), 'msg': 'extra fields not permitted'}]", "stream_options", None),
        ("Unknown parameter: 'top_k'.", "top_k", "does not take top_k"),
        ("Unsupported value: 'temperature' does not support 0.0 with this model.", "temperature", "temperature"),
        ("repeat_penalty is not allowed", "repeat_penalty", "repeat_penalty"),
        ("the field repetition_penalty is unknown", "repetition_penalty", "repetition_penalty"),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_field_that_is_refused_is_left_out(message: str, field: str, told: str | None, status: int) -> None:
    adapted = without_refused(BODY, refused(message, status), {})
    assert adapted is not None
    body, notice = adapted
    assert BODY.keys() - body.keys() == {field}
    assert notice is None if told is None else told in (notice or "")


def test_another_name_for_the_limit_is_taken_up() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    body, notice = without_refused(BODY, refused(words), {}) or ({}, "")
    assert (body["max_completion_tokens"], "max_tokens" in body, notice) == (100, False, None)


@pytest.mark.parametrize(
    "failure", [refused("no such model"), refused("top_p is odd"), refused("top_k", 500), refused("top_k", 401)]
)
def test_other_refusals_stand(failure: Failure) -> None:
    assert without_refused(BODY, failure, {"top_p": 0.5}) is None
    assert not is_overflow(failure)


@pytest.mark.parametrize(
    ("failure", "needed", "available"),
    [
        (refused("too big", type="exceed_context_size_error", n_prompt_tokens=2013, n_ctx=512), 2013, 512),  # llama.cpp
        (
            refused(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens. "
                "Please reduce the length of the messages.",
                code="context_length_exceeded",
            ),
            10000,
            8192,
        ),
        (refused("The input (5000 tokens) is longer than the model's context length (4096 tokens)."), 5000, 4096),
        (refused("The decoder prompt (length 5000) is longer than the maximum model length of 4096."), 5000, 4096),
        (refused("context window exceeded", 413), None, None),
        (refused("maximum context length is 4,096 tokens"), None, 4096),
    ],
)
def test_a_conversation_that_is_too_long(failure: Failure, needed: int | None, available: int | None) -> None:
    assert is_overflow(failure)
    body = {name: value for name, value in BODY.items() if name != "max_tokens"}
    with pytest.raises(ContextOverflowError) as caught:
        without_limit(body, failure, {})
    assert (caught.value.needed, caught.value.available) == (needed, available)
    assert "--ctx" not in (caught.value.hint or "")  # nothing here can change it


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 4196 tokens (100 in the messages, "
        "4096 in the completion).",
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 2048 "
        "tokens and your request has 12 input tokens (4096 > 2048 - 12).",
    ],
)
def test_a_limit_that_leaves_no_room_for_the_prompt_is_left_out_and_told(words: str) -> None:
    failure = refused(words)
    assert is_overflow(failure)
    body, notice = without_limit(BODY, failure, {})
    assert BODY.keys() - body.keys() == {"max_tokens"}
    assert "100 tokens" in (notice or "")
    with pytest.raises(ContextOverflowError):
        without_limit(BODY, failure, {"max_tokens": 100})  # the person's own
