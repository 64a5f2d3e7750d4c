"""Search in all chats, as one types."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.chat.chats import Chats
from app.chat.search import SearchHit
from app.cli.terminal import escape_controls
from app.errors import QChatError
from app.ui.screens.dialog import tell_keys
from app.ui.widgets.one_line import OneLineInput
from app.ui.widgets.session_list import UNTITLED

WAIT_S = 0.12  # after the last key, before the store is asked

_WHO = {"user": "you", "assistant": "reply", None: "title"}


class SearchScreen(ModalScreen[SearchHit | None]):
    """Dismisses with the hit that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss(None)", "Close"),
        ("down", "move(1)", "Next"),
        ("up", "move(-1)", "Previous"),
    ]
    DEFAULT_CSS = """
    SearchScreen {
        align: center middle;
        & > #search {
            width: 100;
            max-width: 94%;
            height: 80%;
            border: round $border;
            border-title-style: bold;
            border-title-color: $text;
            border-subtitle-color: $text-muted;
            background: $surface;
            padding: 1 2 0 2;
        }
        #hits { height: 1fr; border: none; margin: 1 0 0 0; background: $surface; }
        #hits-told { color: $text-muted; height: 1; }
    }
    """

    def __init__(self, chats: Chats, query: str = "") -> None:
        super().__init__()
        self._chats = chats
        self._query = query
        self._found: Sequence[SearchHit] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="search") as dialog:
            tell_keys(dialog, "Search in all chats", "Enter opens · Esc closes")
            yield OneLineInput(self._query, placeholder="Words, a part of one, or a title", id="query")
            yield OptionList(id="hits", markup=False)
            yield Static(id="hits-told")

    def on_mount(self) -> None:
        self.query_one("#hits", OptionList).can_focus = False  # the keys move in it from the field
        self._look(self._query)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._look(event.value)

    def on_input_submitted(self) -> None:
        row = self.query_one("#hits", OptionList).highlighted
        if row is not None and row < len(self._found):
            self.dismiss(self._found[row])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index])

    def action_move(self, step: int) -> None:
        """Move the cursor in the hits."""
        hits = self.query_one("#hits", OptionList)
        if step > 0:
            hits.action_cursor_down()
        else:
            hits.action_cursor_up()

    def _look(self, query: str) -> None:
        self.run_worker(self._search(query), exclusive=True, group="search")

    async def _search(self, query: str) -> None:
        await asyncio.sleep(WAIT_S)
        try:
            self._found = await self._chats.search(query) if query.strip() else ()
        except QChatError as error:
            self._tell(error.message)
            return
        hits = self.query_one("#hits", OptionList)
        hits.set_options([Option(_line(hit)) for hit in self._found])
        if self._found:
            hits.highlighted = 0
        self._tell(f"{len(self._found)} found" if query.strip() else "")

    def _tell(self, text: str) -> None:
        self.query_one("#hits-told", Static).update(Content(escape_controls(text)))


def _line(hit: SearchHit) -> Content:
    """The chat's title and date, and under it the words with what stands around them."""
    title = escape_controls(hit.title or UNTITLED).replace("\n", " ")
    date = time.strftime("%Y-%m-%d", time.localtime(hit.created))
    snippet = Content(hit.snippet)
    for start, end in hit.matches:
        snippet = snippet.stylize("bold $text-accent", start, end)
    head = Content.assemble((title, "bold"), (f"  {_WHO[hit.role]} · {date}", "dim"))
    if hit.role is None:
        return head
    return Content("\n").join([head, _escaped(snippet)])


def _escaped(snippet: Content) -> Content:
    """`snippet` with control characters as one visible mark each, so that the matches stay where they are."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in snippet.plain)
    return Content(plain, list(snippet.spans))
