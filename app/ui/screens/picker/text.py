"""What all the texts of the model picker share: the names of models, safe for a terminal, and the colours.

Every name, title and reason comes from a file or a server, so it is escaped, and nothing of it is read as markup.
"""

from __future__ import annotations

from app.errors import printable
from app.hub.choices import Choice

DIM = "$foreground-muted"
GOOD, WARN, BAD = "$text-success", "$text-warning", "$text-error"


def escaped(text: str) -> str:
    """`text` on one line, safe for a terminal."""
    return printable(text, 400)


def shown_name(choice: Choice) -> str:
    """What a row is called under its heading."""
    return escaped(choice.label or choice.name)


def roughly(choice: Choice) -> str:
    """The sign before a number that is not read from the file itself."""
    return "~" if choice.place in ("catalogue", "offer") else ""
