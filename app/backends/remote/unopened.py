"""Thinking that nothing opened: an answer in which a `</think>` stands on a line of its own.

Some templates end the prompt in `<think>`, and a server without a reasoning parser then sends what the model thinks as
answer. By the time the tag comes all of it was shown, and what was shown is what is kept: the reply stays as it came,
on screen, on disk and in the next prompt, from which the templates of such models cut it. So the person is told. An
answer that only speaks of the tag has it inside a line, or has opened it before.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.backends.base import Answer, Event, Notice, Thinking, ToolCall
from app.backends.remote.server import ServerSettings

_OPENS, _ENDS = "<think>", "</think>"
_MOST = 64  # characters of a line that are kept: a longer one is no tag


class Unopened:
    """Give it each event of a reply to `see`; `notices` at its end."""

    def __init__(self) -> None:
        self._found = False
        self._over = False  # nothing that may still come is such an end
        self._said = False  # there is something before this line
        self._line = ""  # the beginning of this line
        self._tail = ""  # the end of this line, which may begin the opening tag

    def see(self, event: Event) -> None:
        """The next event of the reply."""
        if isinstance(event, (Thinking, ToolCall)):
            self._over = True
        elif isinstance(event, Answer) and not self._over:
            self._read(event.text)

    def notices(self, server: ServerSettings) -> Iterator[Notice]:
        """What a person should know, now that the reply has ended."""
        self._end_line()
        if self._found:
            yield Notice(
                f"what stands before </think> is thinking: {server.name} sent it as answer. It needs a reasoning "
                "parser for this model (docs/remote.md)"
            )

    def _read(self, text: str) -> None:
        for number, piece in enumerate(text.split("\n")):
            if number:
                self._end_line()
            seen = self._tail + piece
            self._over = self._over or _OPENS in seen
            self._tail = seen[-len(_OPENS) :]
            self._line = (self._line + piece)[:_MOST]

    def _end_line(self) -> None:
        line, self._line, self._tail = self._line.strip(), "", ""
        self._found = self._found or (self._said and not self._over and line == _ENDS)
        self._said = self._said or bool(line)
