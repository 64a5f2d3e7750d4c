"""A call of a tool that the model asked for, in a pane of its own. qchat shows it and runs nothing."""

from __future__ import annotations

import json

from textual.content import Content
from textual.widgets import Static

from app.cli.terminal import escape_controls
from app.errors import printable
from app.templates.reply import ToolCall


class ToolCallPane(Static):
    """One call: the tool's name and its arguments."""

    DEFAULT_CSS = """
    ToolCallPane {
        height: auto;
        margin: 1 0 0 0;
        padding: 0 1;
        border: round $secondary;
        border-title-color: $text-secondary;
    }
    """

    def __init__(self, call: ToolCall) -> None:
        arguments = json.dumps(call.arguments, ensure_ascii=False, indent=2)
        super().__init__(Content(escape_controls(arguments)), markup=False)
        self.border_title = Content(f"tool call: {printable(call.name)}")
