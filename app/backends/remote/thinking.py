"""Thinking that came under a name of its own, and the answer after it, trimmed as the splitter trims around its tags.

The newlines next to a tag belong to the tag. A server that takes the tags away may leave them, and some leave the
closing tag itself at the front of the answer; without this the same words would differ from those of another server.
"""

from __future__ import annotations

_END_THINK = "</think>"


class ThinkingApart:
    """Push the thinking to `think` and the answer to `answer`; each gives the text that is certain."""

    def __init__(self) -> None:
        self.came = False
        self._newlines = ""  # at the end of the thinking so far
        self._front = ""  # of the answer, while it may still be the tag
        self._answering = False

    def think(self, text: str) -> str:
        """The next piece of thinking. What follows an answer already given is a thought of its own."""
        if not self.came:
            text = text.lstrip("\n")
        if not text:
            return ""
        self.came = True
        text = self._newlines + text
        said = text.rstrip("\n")
        self._newlines = text[len(said) :]
        return said

    def answer(self, text: str) -> str:
        """The next piece of the answer."""
        if self._answering or not self.came:
            self._answering = self._answering or bool(text)
            return text
        self._front += text
        begins = self._front.lstrip("\n")
        if _END_THINK.startswith(begins.lstrip()):
            return ""  # nothing yet, or the beginning of the tag
        if begins.lstrip().startswith(_END_THINK):
            begins = begins.lstrip().removeprefix(_END_THINK).lstrip("\n")
        if begins:
            self._answering, self._front, self._newlines = True, "", ""
        return begins

    def called(self) -> None:
        """A call follows: newlines between the thinking and its tag belong to the tag."""
        self._newlines = ""

    def flush(self) -> tuple[str, str]:
        """The end of the reply: the rest of the thinking, and of the answer."""
        front, self._front = self._front.lstrip("\n"), ""
        newlines, self._newlines = self._newlines, ""
        return "" if front or self._answering else newlines, front
