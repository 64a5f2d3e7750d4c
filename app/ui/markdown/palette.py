"""The look of each role in the present theme, as Rich styles on the background of the widget.

Roles are style strings over the theme's variables and not component classes: Textual applies every rule to every
component class of every widget when the focus moves, and a conversation has many messages.
"""

from __future__ import annotations

from rich.style import Style as RichStyle
from textual.style import Style

from app.ui.markdown.model import Roles

_STYLES = {
    "strong": "bold",
    "em": "italic",
    "strike": "strike",
    "link": "underline",
    "url": "$foreground-muted",
    "code-inline": "$text-accent on $foreground 8%",
    "h1": "bold underline $text-primary",
    "h2": "bold $text-primary",
    "h3": "bold",
    "h4": "bold italic",
    "h5": "italic",
    "h6": "italic $foreground-muted",
    "marker": "$text-primary",
    "quote": "$foreground 80%",
    "quote-bar": "$foreground 30%",
    "rule": "$foreground 25%",
    "table-border": "$foreground 25%",
    "table-header": "bold",
    "code": "$foreground 90% on $foreground 6%",
    "code-label": "$foreground-muted italic",
    "tok-comment": "$foreground 55% italic",
    "tok-keyword": "$text-accent",
    "tok-string": "$text-success",
    "tok-number": "$text-error",
    "tok-function": "$text-primary",
    "tok-builtin": "$text-secondary",
    "tok-inserted": "$text-success",
    "tok-deleted": "$text-error",
}

# The 16 colours of the terminal have no shades: quiet is dim, and code stands out by its indent.
_ANSI_STYLES = _STYLES | {
    "url": "dim",
    "code-inline": "$text-accent",
    "h6": "italic dim",
    "quote": "italic",
    "quote-bar": "dim",
    "rule": "dim",
    "table-border": "dim",
    "code": "",
    "code-label": "dim italic",
    "tok-comment": "dim italic",
    "tok-keyword": "ansi_magenta",
    "tok-number": "ansi_red",
}


class Palette:
    """Styles of one theme on one background; ask for a new one when either changes."""

    def __init__(self, base: Style, ansi: bool) -> None:
        self._base = base
        self._styles = _ANSI_STYLES if ansi else _STYLES
        self._rich: dict[Roles, RichStyle] = {}

    def style(self, roles: Roles) -> RichStyle:
        """What `roles` add up to, outermost first."""
        style = self._rich.get(roles)
        if style is None:
            total = self._base
            for role in roles:
                total += Style.parse(self._styles[role])
            style = self._rich[roles] = total.rich_style
        return style
