"""Halves of UTF-16 pairs, which terminals, JSON files and servers hand over, made into text that can be written."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """`text` with two surrogates that belong together as their character, and each lone one as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class WellFormed:
    """The same for a text that comes in pieces, which may be cut inside a pair."""

    def __init__(self) -> None:
        self._half = ""

    def push(self, text: str) -> str:
        """The text that is complete now; a first half at the end waits for what follows."""
        if not text:
            return ""
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return well_formed(text[: len(text) - len(self._half)])

    def flush(self) -> str:
        """The end of the text: a half that waited stays alone."""
        half, self._half = self._half, ""
        return well_formed(half)
