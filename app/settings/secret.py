"""A text that nobody may see: an API key on its way from where it is kept to the one request that carries it.

Printing or logging it by accident gives a placeholder, in a traceback and in a dataclass that holds it, too.
"""

from __future__ import annotations

from typing import NoReturn

HIDDEN = "(hidden)"


class Secret:
    """Holds a text that only `reveal` gives."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for the header of a request, or the place where it is kept."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")
