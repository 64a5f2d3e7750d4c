"""A reply's text, as it arrives in pieces of any size, split into thinking, answer and tool calls.

The one place that knows these tags: the screen, the disk, `--json` and the next prompt all get what it returns. The
result does not depend on where the pieces were cut. Newlines next to a tag belong to the tag, because templates write
them (`<think>\\n` ... `\\n</think>\\n\\n`); every other character comes out once. Only a tail that can still become a
tag is held back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from app.errors import printable

THINK, END_THINK = "<think>", "</think>"
CALL, END_CALL = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Thinking:
    """The next piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True)
class Answer:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A whole call. `raw` is the text of it as the model wrote it, tags included."""

    name: str
    arguments: dict[str, Any]
    raw: str


@dataclass(frozen=True)
class Notice:
    """Something that a person should know about this reply."""

    text: str


Part = Thinking | Answer | ToolCall | Notice


class ReplySplitter:
    """Splits one reply. Push its text as it comes, then flush; both return the parts that became certain."""

    def __init__(self, starts_in_thinking: bool) -> None:
        """`starts_in_thinking`: the prompt itself ends in an open `<think>` (see `render.starts_in_thinking`)."""
        self._held = ""
        self._parts: list[Part] = []
        self._text_part: type[Thinking] | type[Answer] = Thinking if starts_in_thinking else Answer
        self._trim = starts_in_thinking  # drop newlines until the next visible character
        self._step: Callable[[], bool] = self._in_text if starts_in_thinking else self._at_start

    def push(self, text: str) -> list[Part]:
        """Parts that `text` completes."""
        self._held += text
        while self._step():
            pass
        return self._taken()

    def flush(self) -> list[Part]:
        """The end of the reply: what was held back turns out to be text, or a call without its closing tag."""
        if self._step == self._in_call:
            self._finish_call(self._held)
        else:
            self._say(self._held)
        self._held = ""
        return self._taken()

    # The steps. Each looks at the held text and returns whether another step may find something in the rest.

    def _at_start(self) -> bool:
        """Nothing said yet: an opening `<think>` here, and only here, begins thinking."""
        beginning = self._held.lstrip()
        if beginning.startswith(THINK):
            self._held = beginning.removeprefix(THINK)
            self._text_part, self._trim = Thinking, True
        elif THINK.startswith(beginning):
            return False
        self._step = self._in_text
        return True

    def _in_text(self) -> bool:
        """Thinking or answer, up to the next tag that means something there."""
        tags = _THINKING_TAGS if self._text_part is Thinking else _ANSWER_TAGS
        if found := tags.whole.search(self._held):
            self._say(self._held[: found.start()])
            self._held = self._held[found.end() :]
            if found["tag"] == END_THINK:
                self._text_part, self._trim = Answer, True
            else:
                self._held = found[0] + self._held
                self._step = self._in_call
            return True
        tail = tags.tail.search(self._held)
        start = tail.start() if tail else len(self._held)
        self._say(self._held[:start])
        self._held = self._held[start:]
        return False

    def _in_call(self) -> bool:
        """Held is `<tool_call>` and what follows: wait for its end, or for proof that it is not a call."""
        tags = _CALL_IN_THINKING if self._text_part is Thinking else _CALL_IN_ANSWER
        body = self._held.partition(CALL)[2].lstrip()
        if body and not body.startswith("{"):
            end = self._held.index(CALL) + len(CALL)
            self._say_broken_call(self._held[:end])
        elif not (found := tags.whole.search(self._held)):
            return False
        elif found["tag"] == END_CALL:
            end = found.end()
            self._finish_call(self._held[:end])
        else:
            end = found.start()  # thinking ends here, so what came before only spoke of a call
            self._say_broken_call(self._held[:end])
        self._held = self._held[end:]
        self._step = self._in_text
        return True

    # What the steps put out.

    def _say(self, text: str) -> None:
        if self._trim:
            text = text.lstrip("\n")
        if not text:
            return
        self._trim = False
        last = self._parts[-1] if self._parts else None
        if isinstance(last, self._text_part):
            text = last.text + text
            self._parts.pop()
        self._parts.append(self._text_part(text))

    def _finish_call(self, text: str) -> None:
        raw = text.lstrip("\n")
        call = _parse_call(raw)
        if call is None:
            self._say_broken_call(text)
        else:
            self._parts.append(call)
            self._text_part, self._trim = Answer, True  # a call ends the thinking that it came from

    def _say_broken_call(self, text: str) -> None:
        self._say(text)
        begin = printable(text.lstrip("\n"), 40)
        self._parts.append(Notice(f"this is not a tool call that can be read, so it is shown as text: {begin}"))

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts


@dataclass(frozen=True)
class _Tags:
    """Patterns of the tags that end a stretch of text: a whole one, and the start of one at the end of the text."""

    whole: re.Pattern[str]
    tail: re.Pattern[str]

    @classmethod
    def of(cls, *tags: str) -> _Tags:
        wholes = "|".join(map(re.escape, tags))
        starts = "|".join(re.escape(tag[:n]) for tag in tags for n in range(len(tag) - 1, 0, -1))
        newlines = r"(?<!\n)\n*"  # from the first newline of a run, so that a long run is looked at once
        return cls(re.compile(f"{newlines}(?P<tag>{wholes})"), re.compile(rf"{newlines}(?:{starts})?\Z"))


_THINKING_TAGS = _Tags.of(END_THINK, CALL)
_ANSWER_TAGS = _Tags.of(CALL)
_CALL_IN_THINKING = _Tags.of(END_CALL, END_THINK)
_CALL_IN_ANSWER = _Tags.of(END_CALL)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_call(raw: str) -> ToolCall | None:
    """The call in `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or None if it is not one."""
    try:
        call = json.loads(raw.removeprefix(CALL).removesuffix(END_CALL), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    return ToolCall(call["name"], arguments, raw) if isinstance(arguments, dict) else None
