"""From a question to the body of POST /api/chat."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.backends.base import ChatRequest
from app.errors import UsageError
from app.unicode import well_formed

_SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)  # settings and options have the same names


def chat_body(
    request: ChatRequest, model: str, n_ctx: int, think: bool | None, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The body of a request for `model`; n_ctx 0 is the server's own.

    `extra` are the person's own fields: they come last, and their `options` beside ours. Raises UsageError for what the
    protocol cannot ask.
    """
    if request.raw_prompt is not None:
        hint = "a server reads control tokens in any text, so only the local engine sends text as it is"
        raise UsageError("--raw works with the backend local alone", hint)
    if request.continue_last:
        raise UsageError("Ollama cannot go on with a reply", "regenerate it, or use the local engine")
    options: dict[str, Any] = {"num_predict": request.max_tokens}  # -1 means the same there
    for name in _SAMPLING:
        if (value := getattr(request.sampling, name)) is not None:
            options[name] = value
    if n_ctx:
        options["num_ctx"] = n_ctx
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request.messages),
        "stream": True,
        "truncate": False,  # a conversation that is too long is an error, not one without its beginning
        "shift": False,  # and a reply that fills the context ends
    }
    if think is not None:
        body["think"] = think
    if request.tools:
        body["tools"] = list(request.tools)
    own = dict(extra)
    own_options = own.pop("options", {})
    return {**body, **own, "options": {**options, **own_options} if isinstance(own_options, dict) else own_options}


def encoded(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON in UTF-8, whatever a person or a model put into it."""
    return well_formed(json.dumps(body, ensure_ascii=False, allow_nan=False)).encode()


def _messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Without thinking of earlier replies; a call's arguments are an object, and its result names the function."""
    sent: list[dict[str, Any]] = []
    called: list[str] = []  # functions whose results are still to come
    for message in messages:
        kept: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
        if calls := message.get("tool_calls"):
            kept["tool_calls"] = [{"function": _function(call["function"])} for call in calls]
            called = [call["function"]["name"] for call in calls]
        elif message["role"] == "tool":
            name = message.get("name") or (called.pop(0) if called else "")
            kept |= {"tool_name": name} if name else {}
        sent.append(kept)
    return sent


def _function(function: Mapping[str, Any]) -> dict[str, Any]:
    arguments = function.get("arguments", {})
    return {"name": function["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}
