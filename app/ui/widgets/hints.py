"""The slash commands that a draft may become, above the composer while one is being typed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from app.ui.actions import slash_commands
from app.ui.widgets.composer import matching_commands

MOST = 8


class CommandHints(Static):
    """Shown only while there is something to show."""

    DEFAULT_CSS = """
    CommandHints { height: auto; padding: 0 3; color: $text-muted; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="hints", markup=False)
        self._names: Sequence[str] = []

    def show_for(self, draft: str) -> None:
        """Show what `draft` may become."""
        names = matching_commands(draft)
        if names == self._names:  # as with nearly every key: no layout then
            return
        self._names = names
        self.display = bool(names)
        known = {action.slash: action for action in slash_commands()}
        lines = [
            Content.assemble(
                (f"/{name}", "$text-accent"), f" {known[name].argument}".ljust(24 - len(name)), known[name].help
            )
            for name in names[:MOST]
        ]
        if len(names) > MOST:
            lines.append(Content(f"… {len(names) - MOST} more"))
        self.update(Content("\n").join(lines))
