"""A tool call as the Qwen family writes it: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Where a call ends has to be found while it arrives. Tags inside the strings of its JSON are its own, so strings are
followed character by character; and the sooner it shows that something is no JSON, the less text is held back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

CALL, END_CALL = "<tool_call>", "</tool_call>"

_DEEPEST = 100  # levels of nested arguments; whoever walks through them must not run out of stack

_SPACE = re.compile(r"[ \t\n\r]*+")
_BETWEEN_STRINGS = re.compile(r"[ \t\n\r{}\[\]:,0-9+\-.eE" + "".join(sorted(set("truefalsenull"))) + r"]*+")
_STRING = re.compile(r'[^"\\\x00-\x1f]*+(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*+)*+')  # up to what cannot be in it
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class ToolCall:
    """A whole call. `raw` is the text of it as the model wrote it, tags included."""

    name: str
    arguments: dict[str, Any]
    raw: str


class Verdict(Enum):
    """What is known of a call after some of its text."""

    OPEN = auto()  # it may still become one
    ENDED = auto()  # its closing tag has been read
    BROKEN = auto()  # it began with a brace, and the next character cannot be JSON
    NO_OBJECT = auto()  # there is no brace after the opening tag


class CallScanner:
    """Finds the end of one call in the text after its opening tag, which may come in pieces of any size."""

    def __init__(self) -> None:
        self._in_object = False
        self._in_string = False

    def read(self, text: str, at: int) -> tuple[int, Verdict]:
        """Read `text` on from `at`; how far that went, and what is known then.

        After OPEN, read on from there once there is more text. All that is unread then is the beginning of a closing
        tag, or a backslash.
        """
        if not self._in_object:
            at = _end(_SPACE, text, at)
            if at < len(text) and text[at] != "{":
                return at, Verdict.NO_OBJECT
            self._in_object = at < len(text)
        while True:
            at = _end(_STRING if self._in_string else _BETWEEN_STRINGS, text, at)
            if not text.startswith('"', at):
                break
            self._in_string = not self._in_string
            at += 1
        rest = text[at : at + len(END_CALL)]
        if self._in_string:
            return at, Verdict.OPEN if rest in ("", "\\") else Verdict.BROKEN
        if rest == END_CALL:
            return at + len(END_CALL), Verdict.ENDED
        return at, Verdict.OPEN if END_CALL.startswith(rest) else Verdict.BROKEN


def parse_call(raw: str) -> ToolCall | None:
    """The call that `raw` is, with or without its closing tag; None if it is not one.

    Half a surrogate pair in its strings becomes U+FFFD. Arguments nested deeper than 100 levels are refused.
    """
    try:
        call = json.loads(raw.removeprefix(CALL).removesuffix(END_CALL), parse_constant=_no_constant)
        call = _checked(call, 0)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    return ToolCall(call["name"], arguments, raw) if isinstance(arguments, dict) else None


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where the run of `pattern` at `at`, which may be empty, ends."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _checked(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)  # json has joined the pairs
    if isinstance(value, dict):
        return {_checked(key, depth): _checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, depth + 1) for item in value]
    return value
