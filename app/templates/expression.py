"""Where operands begin and end in the tokens of one tag: enough grammar to put a call around the right part.

Jinja2's postfix chain is `primary (.name | [..] | (..))*`; a filter is `|name` or `|name(..)`. Positions are indices
of tokens without the spaces. A parser is not needed: brackets tell where a chain goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.templates.lexer import Token

_KEYWORDS = frozenset(
    [
        "in",
        "not",
        "and",
        "or",
        "is",
        "if",
        "elif",
        "else",
        "for",
        "set",
        "recursive",
        "with",
        "call",
        "filter",
        "macro",
        "do",
    ]
)


class Expression:
    """The tokens of a tag, without spaces, and which brackets belong together."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = [token for token in tokens if token.kind != "space"]
        self.partner: dict[int, int] = {}  # position of a bracket -> position of the one that it pairs with
        open_brackets: list[int] = []
        for i in range(len(self.tokens)):
            if self.at(i, "(", "[", "{"):
                open_brackets.append(i)
            elif self.at(i, ")", "]", "}") and open_brackets:
                opening = open_brackets.pop()
                self.partner[i], self.partner[opening] = opening, i

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, i: int, *texts: str) -> bool:
        """Whether token `i` exists, is no string, and is one of `texts`."""
        return 0 <= i < len(self.tokens) and self.tokens[i].kind != "string" and self.tokens[i].text in texts

    def is_name(self, i: int) -> bool:
        """Whether token `i` exists and is a name (or a keyword)."""
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == "name"

    def is_string(self, i: int) -> bool:
        """Whether token `i` exists and is a string literal."""
        return 0 <= i < len(self.tokens) and self.tokens[i].kind == "string"

    def _ends_operand(self, i: int) -> bool:
        if self.is_name(i):
            return self.tokens[i].text not in _KEYWORDS or self.at(i - 1, ".")
        return self.is_string(i) or self.at(i, ")", "]", "}")

    def chain_start(self, last: int) -> int:
        """The first token of the postfix chain that ends with token `last`."""
        i = last
        while True:
            if self.at(i, ")", "]", "}") and i in self.partner:
                opening = self.partner[i]
                if self.at(i, "}") or not self._ends_operand(opening - 1):
                    return opening  # a dict, a list, or a parenthesis: the primary itself
                i = opening - 1
            elif self.at(i - 1, ".") and self.tokens[i].kind in ("name", "number"):
                i -= 2
            elif self.is_string(i) and self.is_string(i - 1):
                i -= 1
            else:
                return i

    def operand_end(self, first: int) -> int:
        """The last token of the operand that starts with `first`: signs, a primary, its postfix chain and filters."""
        i = first
        while self.at(i, "-", "+"):
            i += 1
        i = self.partner.get(i, i)
        while self.at(i + 1, "(", "[") or (self.at(i + 1, ".", "|") and self.is_name(i + 2)):
            i = self.partner.get(i + 1, i + 2)
        return i

    def filter_that_ends(self, last: int) -> str | None:
        """The name of the filter whose name or arguments end with token `last`."""
        name = self.partner[last] - 1 if self.at(last, ")") and last in self.partner else last
        return self.tokens[name].text if self.at(name - 1, "|") else None

    def next_outside_brackets(self, start: int, *texts: str) -> int:
        """The position of the next of `texts` outside brackets, or the number of tokens."""
        i = start
        while i < len(self.tokens) and not self.at(i, *texts):
            i = (self.partner.get(i, i) if self.at(i, "(", "[", "{") else i) + 1
        return i
