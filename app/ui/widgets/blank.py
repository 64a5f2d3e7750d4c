"""A container without border or content, painted as its background at once in place of row by row."""

from __future__ import annotations

from textual.containers import Vertical

from app.ui.widgets.one_layout import OneLayout


class Blank(OneLayout, Vertical):
    """Lays out its children one below the other, unless its CSS says `layout: horizontal`."""

    BLANK = True
