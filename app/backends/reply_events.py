"""A reply's text on its way out: through the splitter and, where it is answer, through the stop filter.

Stop strings end the answer only: they are looked for in what the splitter calls answer, so a stop that occurs while the
model thinks, or inside a tool call, means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.backends.base import Answer, Event, ToolCall
from app.engine.stop import StopFilter
from app.templates.reply import Part, ReplySplitter

Emit = Callable[[Event], None]


class ReplyEvents:
    """Hands to `emit` what `push` is given, text as it comes, and `send`, parts that were apart already."""

    def __init__(self, starts_in_thinking: bool, stops: Sequence[str], emit: Emit) -> None:
        self._splitter = ReplySplitter(starts_in_thinking)
        self._filter = StopFilter(stops)
        self._emit = emit

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found; from then on nothing more comes out."""
        return self._filter.stopped

    def push(self, text: str) -> None:
        """The next piece of the reply's text."""
        self.send(self._splitter.push(text))

    def flush(self) -> None:
        """The end of the reply."""
        self.send(self._splitter.flush())
        self._release()

    def send(self, parts: Sequence[Part]) -> None:
        """Parts of the reply, in order."""
        for part in parts:
            if self.stopped:
                return
            if isinstance(part, Answer):
                self._say(self._filter.push(part.text))
                continue
            if isinstance(part, ToolCall):
                self._release()
            self._emit(part)

    def _release(self) -> None:
        self._say(self._filter.flush())

    def _say(self, text: str) -> None:
        if text:
            self._emit(Answer(text))
