"""The chats, newest first, in a column beside the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.cli.terminal import escape_controls
from app.ui.keymap import bindings

if TYPE_CHECKING:
    from app.chat.store import SessionSummary

UNTITLED = "New chat"


class SessionList(OptionList):
    """One line a chat. Opening one is a message; the other keys are actions of the screen on `selected_id`."""

    BINDINGS = bindings("chats")
    DEFAULT_CSS = """
    SessionList {
        width: 30;
        height: 1fr;
        border: none;
        border-right: vkey $panel;
        padding: 1 0 0 0;
        background: $background;
        scrollbar-size-vertical: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus { border: none; border-right: vkey $border; background-tint: transparent; }
    }
    """

    @dataclass
    class Opened(Message):
        """The person wants this chat."""

        session_id: str

    def __init__(self) -> None:
        super().__init__(id="chats", markup=False)
        self._current: str | None = None

    @property
    def selected_id(self) -> str | None:
        """The id of the chat under the cursor."""
        if self.highlighted is None:
            return None
        return self.get_option_at_index(self.highlighted).id

    def show(self, summaries: Sequence[SessionSummary], current: str) -> None:
        """Show these chats; the cursor is on the `current` one, or stays where the person has put it."""
        wanted = (self.selected_id if self.has_focus else None) or current
        self._current = current
        ids = [summary.session.id for summary in summaries]
        self.set_options([Option(self._line(summary), id=summary.session.id) for summary in summaries])
        if not ids:
            self.add_option(Option(Content("  No chats yet"), disabled=True))
        else:
            self.highlighted = ids.index(wanted) if wanted in ids else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id is not None:
            self.post_message(self.Opened(event.option.id))

    def _line(self, summary: SessionSummary) -> Content:
        session = summary.session
        title = escape_controls(session.title or UNTITLED).replace("\n", " ")
        mark = "● " if session.id == self._current else "  "
        return Content.assemble((mark, "$text-accent"), title)
