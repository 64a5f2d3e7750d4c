"""What a source of typed text is to the loop: the prompt-toolkit one and the plain one look the same from there."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from app.chat.text import well_formed

_HALVES = re.compile(rb"((?:\xed[\xa0-\xbf][\x80-\xbf])+)")  # of UTF-16 pairs, encoded as characters are in UTF-8


class InterruptError(Exception):
    """Ctrl-C where there was nothing to interrupt or to clear."""


class Typed(NamedTuple):
    """One entry. `draft` is text that was being written when a key asked for the command in `text`."""

    text: str
    draft: str = ""


class Source(Protocol):
    """Where the person types."""

    edits: bool  # whether a draft can be put before the person

    async def read(self, prompt: str, draft: str = "") -> Typed:
        """The next entry, which begins as `draft`. Raises EOFError at the end, InterruptError for Ctrl-C."""

    def interrupt(self) -> bool:
        """A signal asked to interrupt: as Ctrl-C at the prompt; False where no prompt waits any more."""

    def aside(self, write: Callable[[], None]) -> None:
        """Have `write` write whole lines to the terminal now, without harm to the prompt and the draft."""

    def while_busy(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """Something runs that `stop` stops. What is typed meanwhile is kept for the next prompt."""


def as_typed(text: str) -> str:
    """Text whose bytes were read with surrogateescape, as well-formed Unicode.

    Halves of UTF-16 pairs that were sent as if they were characters become the character; what is no text, U+FFFD.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # halves as characters, from a Windows console
        return well_formed(text)
    parts = [
        part.decode("utf-8", "surrogatepass" if number % 2 else "replace")
        for number, part in enumerate(_HALVES.split(data))
    ]
    return well_formed("".join(parts))
