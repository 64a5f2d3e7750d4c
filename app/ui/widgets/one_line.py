"""A field of one line, for whatever a person may paste into it."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from app.chat.text import well_formed


class OneLineInput(Input):
    """What is pasted over several lines becomes one, submits nothing, and nothing in it acts as a key."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        line = " ".join(well_formed(event.text).split())
        self.replace("".join(c for c in line if c.isprintable() or c == "\N{ZERO WIDTH JOINER}"), *self.selection)
