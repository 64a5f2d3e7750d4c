"""From a question to the body of a request, and what to send instead where a server refuses a part of it.

The protocol has many dialects, and a strict server refuses a request for one field that it does not know. Such a field
is left out and the request sent once more, which is safe because nothing was answered; a person is told, unless the
field only asked for figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.backends.base import ChatRequest
from app.backends.remote.failure import Failure
from app.errors import ContextOverflowError, UsageError
from app.unicode import well_formed

_SAMPLING = {  # setting -> its names in requests: the first two are vLLM's and SGLang's, then llama-server's
    "temperature": ("temperature",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "repeat_penalty": ("repetition_penalty", "repeat_penalty"),
    "presence_penalty": ("presence_penalty",),
    "frequency_penalty": ("frequency_penalty",),
    "seed": ("seed",),
}
_WHAT_IT_MEANT = {
    "stream_options": None,  # the figures are missing, and shown as missing
    "chat_template_kwargs": "this server has no thinking switch, so --think and --no-think change nothing",
}
Adapted = tuple[dict[str, Any], str | None]  # a body, and what to tell about it

_REFUSALS = frozenset({400, 413, 422})
_MAX_TOKENS, _NEW_MAX_TOKENS = "max_tokens", "max_completion_tokens"
_TOO_LONG = re.compile(
    r"context (?:length|size|window)|maximum model length|max_model_len|context_length_exceeded|exceed_context_size"
)
_HOLDS = re.compile(r"(?:context (?:length|size|window)|maximum model length)[^\d.;]{0,30}?(\d+)")
_NEEDS = re.compile(
    r"(?:resulted in|you requested|requested a total of|your request has|The input \(|prompt \(length) ?(\d+)"
)


def request_body(request: ChatRequest, model: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """What is posted to /chat/completions; `extra` are the person's own fields, which come last.

    Raises UsageError for what no server can be asked.
    """
    if request.raw_prompt is not None:
        hint = "a server reads control tokens in any text, so only the local engine sends text as it is"
        raise UsageError("--raw works with the backend local alone", hint)
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for setting, names in _SAMPLING.items():
        value = getattr(request.sampling, setting)
        if value is not None:
            body |= dict.fromkeys(names, value)
    if request.max_tokens != -1:
        body[_MAX_TOKENS] = request.max_tokens
    if request.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": request.thinking}
    if request.tools:
        body["tools"] = list(request.tools)
    if request.continue_last:
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return body | dict(extra)


def encoded(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON in UTF-8, whatever a person or a model put into it."""
    return well_formed(json.dumps(body, ensure_ascii=False, allow_nan=False)).encode()


def is_overflow(failure: Failure) -> bool:
    """Whether the server says that the conversation, or it and the reply, are longer than its context."""
    words = f"{failure.fields.get('code')} {failure.fields.get('type')} {failure.reason}"
    return failure.status in _REFUSALS and _TOO_LONG.search(words) is not None


def without_limit(body: Mapping[str, Any], failure: Failure, extra: Mapping[str, Any]) -> Adapted:
    """What to send after an overflow: the same without a limit to the reply, which some servers add to the prompt.

    Raises ContextOverflowError where that cannot be it.
    """
    left = dict(body)
    limit = left.pop(_MAX_TOKENS, None)
    if limit is None or _MAX_TOKENS in extra or "n_prompt_tokens" in failure.fields:
        raise _overflow(failure)
    return left, f"the server's context has no room for a reply of {limit:,} tokens; it ends where the context does"


def without_refused(body: Mapping[str, Any], failure: Failure, extra: Mapping[str, Any]) -> Adapted | None:
    """What to send after `failure`, and what to tell about it; None where the server's answer stands.

    The person's own fields are never left out.
    """
    if failure.status not in _REFUSALS:
        return None
    reason, left = failure.reason, dict(body)
    if _NEW_MAX_TOKENS in reason and _MAX_TOKENS in left.keys() - extra.keys():
        left[_NEW_MAX_TOKENS] = left.pop(_MAX_TOKENS)
        return left, None
    for field in ("stream_options", "chat_template_kwargs", *(name for names in _SAMPLING.values() for name in names)):
        if field in left.keys() - extra.keys() and re.search(rf"\b{field}\b", reason):
            del left[field]
            return left, _WHAT_IT_MEANT.get(field, f"this server does not take {field}, so it was left out")
    return None


def _overflow(failure: Failure) -> ContextOverflowError:
    """With the server's numbers, where it gives any."""
    needed, available = failure.fields.get("n_prompt_tokens"), failure.fields.get("n_ctx")
    if not isinstance(needed, int) or not isinstance(available, int):
        numbers = [pattern.search(failure.reason.replace(",", "")) for pattern in (_NEEDS, _HOLDS)]
        needed, available = (int(found[1]) if found else None for found in numbers)
    hint = "shorten the message or begin a new chat; how much fits, the server decides when it is started"
    return ContextOverflowError(needed, available, hint)


def _messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As servers want them: calls get ids, and their arguments are text. Thinking before the last question is left out;
    what was thought since, before a call of a tool, belongs to the reply that goes on.
    """
    last_question = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    sent = []
    numbered = 0
    waiting: list[str] = []  # ids of calls whose results are still to come
    for i, message in enumerate(messages):
        written = dict(message)
        if i < last_question:
            written.pop("reasoning_content", None)
        if calls := message.get("tool_calls"):
            written["tool_calls"] = [_call(call, f"call_{n}") for n, call in enumerate(calls, numbered)]
            waiting = [call["id"] for call in written["tool_calls"]]
            numbered += len(calls)
        elif message.get("role") == "tool" and "tool_call_id" not in message and waiting:
            written["tool_call_id"] = waiting.pop(0)
        sent.append(written)
    return sent


def _call(call: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    function = dict(call["function"])
    if not isinstance(function.get("arguments"), str):
        function["arguments"] = json.dumps(function.get("arguments", {}), ensure_ascii=False)
    return {"id": call_id, **call, "type": "function", "function": function}
