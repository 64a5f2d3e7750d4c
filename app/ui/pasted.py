"""Bracketed pastes, told from keys before anything else looks at what a terminal sends.

What is pasted is somebody else's text. Textual looks for keys in it wherever it holds an escape character, so that a
paste could press Enter, or any other key.
"""

from __future__ import annotations

from collections.abc import Iterator

from textual.events import Paste

START, END = "\x1b[200~", "\x1b[201~"


class PasteSplitter:
    """Takes what a terminal sends in pieces of any size; gives the keys, as text, and the pastes, in order."""

    def __init__(self) -> None:
        self._held = ""  # may be the beginning of a mark
        self._pasted: list[str] | None = None  # the paste so far, inside one

    def feed(self, text: str) -> Iterator[str | Paste]:
        """The next piece."""
        text, self._held = self._held + text, ""
        while True:
            mark = START if self._pasted is None else END
            before, found, after = text.partition(mark)
            if not found:
                break
            yield from self._take(before)
            if self._pasted is None:
                self._pasted = []
            else:
                yield Paste("".join(self._pasted).replace("\0", ""))
                self._pasted = None
            text = after
        kept = _beginning_of(mark, text)
        self._held = text[len(text) - kept :]
        yield from self._take(text[: len(text) - kept])

    def silence(self) -> Iterator[str]:
        """Nothing came for a while: a key that is the beginning of a mark, such as Escape, is one."""
        if self._pasted is None and self._held:
            held, self._held = self._held, ""
            yield held

    def _take(self, text: str) -> Iterator[str]:
        if self._pasted is not None:
            self._pasted.append(text)
        elif text:
            yield text


def _beginning_of(mark: str, text: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    return next((n for n in range(len(mark) - 1, 0, -1) if text.endswith(mark[:n])), 0)
