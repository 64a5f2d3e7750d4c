"""What one chunk of a stream says, read without trust: servers leave out, rename and repeat every field there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.backends.remote.failure import reason_of


@dataclass(frozen=True)
class Chunk:
    """The next piece of a reply. `finish_reason` is the server's own word; None while the reply goes on."""

    thinking: str = ""
    answer: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    timings: Mapping[str, Any] | None = None  # llama-server's own measurements
    progress: Mapping[str, Any] | None = None  # llama-server's, of reading the prompt
    error: str | None = None


def read_chunk(document: Mapping[str, Any], choice_index: int | None) -> tuple[Chunk, int | None]:
    """The chunk that `document` is, and the index of the choice that is followed: the first that ever came."""
    error = _error(document)
    choices = [choice for choice in _list(document.get("choices")) if isinstance(choice, dict)]
    if choice_index is None and choices:
        choice_index = choices[0].get("index", 0)
    choice: Mapping[str, Any] = next((each for each in choices if each.get("index", 0) == choice_index), {})
    said = _dict(choice.get("delta")) or _dict(choice.get("message"))  # a server that does not stream has a message
    thinking_inside, answer = _content(said.get("content"))
    finish_reason = choice.get("finish_reason")
    chunk = Chunk(
        thinking=_reasoning(said) or thinking_inside,
        answer=answer or _text(said.get("refusal")),
        calls=[call for call in _list(said.get("tool_calls")) if isinstance(call, dict)],
        finish_reason=finish_reason if isinstance(finish_reason, str) and finish_reason else None,
        usage=_dict(document.get("usage")) or None,
        timings=_dict(document.get("timings")) or None,
        progress=_dict(document.get("prompt_progress")) or None,
        error=error or _error(choice),
    )
    return chunk, choice_index


def _reasoning(said: Mapping[str, Any]) -> str:
    """Thinking under whichever of its names there is; where two carry it, they carry the same."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if text := _text(said.get(name)):
            return text
    if not (entries := _list(said.get("reasoning_details"))):
        return ""
    details = map(_dict, entries)
    return "".join(_text(each.get("text")) or _text(each.get("summary")) for each in details)


def _content(content: Any) -> tuple[str, str]:
    """Thinking and answer of a message's content, which is a text or a list of typed parts."""
    if not isinstance(content, list):
        return "", _text(content)
    thinking, answer = [], []
    for part in map(_dict, content):
        if part.get("type") == "thinking":
            thinking.append(_content(part.get("thinking"))[1])
        else:
            answer.append(_text(part.get("text")))
    return "".join(thinking), "".join(answer)


def _error(document: Mapping[str, Any]) -> str | None:
    """The server's words for what went wrong, if this says that something did."""
    if document.get("error"):
        return reason_of(document) or "an error without a message"
    return reason_of(document) if document.get("object") == "error" or document.get("type") == "error" else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
