"""A reply's text, as it arrives in pieces of any size, split into thinking, answer and tool calls.

The one place that knows these tags: the screen, the disk, `--json` and the next prompt all get what it returns. The
result does not depend on where the pieces were cut, and the time is linear in the length. Newlines next to a tag belong
to the tag, because templates write them (`<think>\\n` ... `\\n</think>\\n\\n`); every other character comes out once.
Only a tail that can still become a tag is held back, and a call for as long as it can be one.

Tags inside the JSON strings of a call are its own, so it ends at the first `</tool_call>` outside of them. It can be a
call until a character comes that JSON does not allow there. A raw line end inside a string is one: a forgotten quote
makes what follows look like a string, but by the end of the line it is found out. A *broken call* is one that was found
out, or whose object is not a call's, or that the reply ends in. It is text up to the first end tag, even where that
stands in what looked like a string, with a notice behind it; from that tag on the text is read anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import printable
from app.templates.tool_call import CALL, END_CALL, CallScanner, ToolCall, Verdict, parse_call

__all__ = ["Answer", "Notice", "Part", "ReplySplitter", "Thinking", "ToolCall"]

THINK, END_THINK = "<think>", "</think>"

_NOTICE_LENGTH = 40  # characters of a broken call that its notice repeats


@dataclass(frozen=True)
class Thinking:
    """The next piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True)
class Answer:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True)
class Notice:
    """Something that a person should know about this reply."""

    text: str


Part = Thinking | Answer | ToolCall | Notice


class ReplySplitter:
    """Splits one reply. Push its text as it comes, then flush; both return the parts that became certain.

    What was read but is not decided (white space before the first word, newlines that may belong to a tag, an open
    call) is `_kept`, from earlier pushes, and `_text[_start:_at]`. The rest of `_text` is still to be read.
    """

    def __init__(self, starts_in_thinking: bool) -> None:
        """`starts_in_thinking`: the prompt itself ends in an open `<think>` (see `render.starts_in_thinking`)."""
        self._kept: list[str] = []
        self._text = ""
        self._start = self._at = 0
        self._parts: list[Part] = []
        self._text_part: type[Thinking] | type[Answer] = Thinking if starts_in_thinking else Answer
        self._trim = starts_in_thinking  # drop newlines until the next visible character
        self._call = CallScanner()  # of the latest `<tool_call>`
        self._broken: str | None = None  # in a broken call: how it begins
        self._step: Callable[[], bool] = self._in_text if starts_in_thinking else self._at_start

    def push(self, text: str) -> list[Part]:
        """Parts that `text` completes."""
        self._text += text
        self._run()
        if self._at > self._start:
            self._kept.append(self._text[self._start : self._at])
        self._text = self._text[self._at :]
        self._start = self._at = 0
        return self._taken()

    def flush(self) -> list[Part]:
        """The end of the reply: what was held back turns out to be text, or a call without its closing tag."""
        while self._step == self._in_call:
            self._end_call(len(self._text))
            self._run()
        self._decide_text(len(self._text))
        self._end_broken_call()
        return self._taken()

    def _run(self) -> None:
        while self._step():
            pass

    # The steps. Each reads on from `_at` and returns whether another step may find something in the rest.

    def _at_start(self) -> bool:
        """Nothing said yet: an opening `<think>` here, and only here, begins thinking."""
        beginning = self._text[self._at :].lstrip()
        self._at = len(self._text) - len(beginning)
        if beginning.startswith(THINK):
            self._drop(self._at + len(THINK))
            self._text_part, self._trim = Thinking, True
        elif THINK.startswith(beginning):
            return False
        else:
            self._go_back()
        self._step = self._in_text
        return True

    def _in_text(self) -> bool:
        """Thinking, answer or a broken call, up to the next tag that means something there."""
        found = self._tags().search(self._text, self._at)
        end = found.start() if found else len(self._text)
        visible_end = self._at + len(self._text[self._at : end].rstrip("\n"))
        if visible_end > self._at:
            self._decide_text(visible_end)
        self._at = end
        if found is None or found["tag"] is None:
            return False
        if found["tag"] == CALL:
            self._at = found.end()
            self._call, self._step = CallScanner(), self._in_call
        elif found["tag"] == END_CALL:
            self._decide_text(found.end())
            self._end_broken_call()
        else:  # a broken call here only spoke of one
            self._end_broken_call()
            self._drop(found.end())
            self._text_part, self._trim = Answer, True
        return True

    def _in_call(self) -> bool:
        """What follows `<tool_call>`."""
        self._at, verdict = self._call.read(self._text, self._at)
        if verdict is Verdict.OPEN:
            return False
        if verdict is Verdict.ENDED:
            self._end_call(self._at)
            return True
        self._break_call()
        if verdict is Verdict.NO_OBJECT:  # the tag alone is text
            self._decide_text(self._text.index(CALL, self._at) + len(CALL))
            self._end_broken_call()
        return True

    def _tags(self) -> re.Pattern[str]:
        if self._text_part is Thinking:
            return _THINKING_TAGS if self._broken is None else _ENDS_IN_THINKING
        return _ANSWER_TAGS if self._broken is None else _ENDS_IN_ANSWER

    # What is not decided yet: each of these ends that in its way.

    def _undecided(self, end: int) -> str:
        return "".join(self._kept) + self._text[self._start : end]

    def _decide_text(self, end: int) -> None:
        """All up to `end` is text."""
        self._say(self._undecided(end))
        self._drop(end)

    def _drop(self, end: int) -> None:
        """All up to `end` has come out, or is not to."""
        self._kept.clear()
        self._start = self._at = end

    def _go_back(self) -> None:
        """Read all of it again."""
        if self._kept:
            self._text = self._undecided(len(self._text))
            self._kept.clear()
            self._start = 0
        self._at = self._start

    def _end_call(self, end: int) -> None:
        """All up to `end` is a call, or a broken one."""
        call = parse_call(self._undecided(end).lstrip("\n"))
        if call is None:
            self._break_call()
            return
        self._parts.append(call)
        self._drop(end)
        self._text_part, self._trim = Answer, True  # a call ends the thinking that it came from
        self._step = self._in_text

    def _break_call(self) -> None:
        self._go_back()
        self._broken, self._step = "", self._in_text

    # What comes out.

    def _say(self, text: str) -> None:
        if self._trim:
            text = text.lstrip("\n")
        if not text:
            return
        self._trim = False
        if self._broken is not None:
            self._broken = (self._broken + text).lstrip("\n")[: _NOTICE_LENGTH + 1]
        last = self._parts[-1] if self._parts else None
        if isinstance(last, self._text_part):
            text = last.text + text
            self._parts.pop()
        self._parts.append(self._text_part(text))

    def _end_broken_call(self) -> None:
        """The notice of a broken call, if one ends here."""
        if self._broken is None:
            return
        begin = printable(self._broken, _NOTICE_LENGTH)
        self._parts.append(Notice(f"this is not a tool call that can be read, so it is shown as text: {begin}"))
        self._broken = None

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts


def _tags(*tags: str) -> re.Pattern[str]:
    """Finds the first of the tags, or the beginning of one at the end of the text; then the group `tag` is None."""
    wholes = "|".join(map(re.escape, tags))
    starts = "|".join(re.escape(tag[:n]) for tag in tags for n in range(len(tag) - 1, 0, -1))
    return re.compile(rf"(?P<tag>{wholes})|(?:{starts})\Z")


_THINKING_TAGS = _tags(END_THINK, CALL)
_ANSWER_TAGS = _tags(CALL)
_ENDS_IN_THINKING = _tags(END_CALL, END_THINK)
_ENDS_IN_ANSWER = _tags(END_CALL)
