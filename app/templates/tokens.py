"""The tokens of one tag, read one after the other; line ends between them are kept for what is written instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from app.templates.lexer import Token
from app.templates.limits import TemplateFailure


class Tokens:
    """The tokens of a tag without spaces, and which is next. Raises TemplateFailure where another was expected."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens: list[Token] = []
        self._line_ends: list[str] = []  # before each token and after the last
        line_ends = ""
        for token in tokens:
            if token.kind == "space":
                line_ends += "\n" * token.text.count("\n")
            else:
                self._tokens.append(token)
                self._line_ends.append(line_ends)
                line_ends = ""
        self._line_ends.append(line_ends)
        self._next = 0
        self._pending = ""  # line ends before tokens that were left out

    @property
    def line(self) -> int:
        """The line of the next token, or of the last one."""
        return self._tokens[min(self._next, len(self._tokens) - 1)].line if self._tokens else 1

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """Whether the next token is one of `texts`, and no string."""
        i = self._next + ahead
        return i < len(self._tokens) and self._tokens[i].kind != "string" and self._tokens[i].text in texts

    def at_kind(self, *kinds: str) -> bool:
        """Whether the next token is of one of `kinds`."""
        return self._next < len(self._tokens) and self._tokens[self._next].kind in kinds

    def take(self, *kinds: str) -> str:
        """The text of the next token, which must be of one of `kinds`. Its line ends wait for `line_ends`."""
        if not self.at_kind(*kinds):
            self.fail()
        self._pending += self._line_ends[self._next]
        self._next += 1
        return self._tokens[self._next - 1].text

    def skip(self, text: str) -> bool:
        """Whether the next token was `text`; it is behind then."""
        if not self.at(text):
            return False
        self.take("name", "operator")
        return True

    def expect(self, text: str) -> None:
        """Go behind `text`."""
        if not self.skip(text):
            self.fail()

    def line_ends(self) -> str:
        """The line ends that the written code has not got yet."""
        pending, self._pending = self._pending, ""
        return pending

    def end(self) -> str:
        """The line ends after the last token; fails where one is left."""
        if self._next < len(self._tokens):
            self.fail()
        self._pending += self._line_ends[-1]
        self._line_ends[-1] = ""
        return self.line_ends()

    def fail(self) -> NoReturn:
        """Report the next token as out of place."""
        what = f"`{self._tokens[self._next].text}`" if self._next < len(self._tokens) else "the end of a tag"
        raise TemplateFailure(self.line, f"unexpected {what}")

    def until(self, closing: str) -> Iterator[None]:
        """Once for each of the parts with commas between, which the caller reads, up to `closing`."""
        if self.skip(closing):
            return
        yield
        while not self.skip(closing):
            self.expect(",")
            if self.skip(closing):  # a comma may follow the last
                return
            yield
