"""The parts of the model picker and what they show: the rows with what is known of them, and the lines below.

Files are described and servers asked in threads, which only post messages; what the screen shows is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.worker import get_current_worker

from app.cli.progress import human_bytes
from app.hub.choices import Choice, Place, completed
from app.hub.fit import free_memory
from app.hub.library import Library
from app.settings import Settings
from app.ui.screens.picker.detail import detail
from app.ui.screens.picker.model_list import ModelList
from app.ui.screens.picker.progress import step
from app.ui.screens.picker.servers import ask_servers
from app.ui.screens.picker.shelf import Shelf
from app.ui.screens.picker.text import escaped, shown_name
from app.ui.widgets.one_line import OneLineInput

_ENTER: Mapping[Place, str] = {
    "disk": "Enter chooses it",
    "unfinished": "Enter goes on with it",
    "repository": "Enter asks for it",
    "offer": "Enter downloads it",
    "catalogue": "Enter downloads it",
    "server": "Enter chooses it",
}


class PickerView(ModalScreen[str | None]):
    """The filter, the list and the lines below it."""

    @dataclass
    class Described(Message):
        """The header of a file has been read."""

        choice: Choice

    @dataclass
    class Answered(Message):
        """A server has told its models, or is not there."""

        server: str
        rows: list[Choice]

    def __init__(self, library: Library, settings: Settings, *, in_use: str = "", held: int = 0) -> None:
        super().__init__()
        self._library = library
        self._settings = settings
        self._in_use = in_use
        free = free_memory()
        self._shelf = Shelf(library, settings, None if free is None else free + held)
        self._models = ModelList(in_use)
        self._moved_by_hand = False
        self._said: dict[str, Content] = {}  # by key of a row: how its last download ended
        self._verdicts: dict[str, str] = {}  # by key of a row: what was found out about the file that came
        self._asking = ""  # the repository that is being asked for
        self._asking_note = ""  # why its answer is waited for

    def compose(self) -> ComposeResult:
        with Vertical(id="panel") as panel:
            panel.border_title = "Choose a model"
            if self._shelf.free is not None:
                panel.border_subtitle = f"{human_bytes(self._shelf.free)} of memory free"
            yield OneLineInput(placeholder="Type to filter, or hf:ORG/REPO", id="filter", compact=True)
            yield Static(id="welcome", markup=False)
            yield self._models
            yield Static(id="detail", markup=False)
            yield Static(id="hints", markup=False)

    def on_mount(self) -> None:
        self._read_library()
        choices = self._models.choices
        here = [choice for choice in choices if choice.place == "disk"]
        starter = next(choice for choice in choices if choice.place == "catalogue")
        self.set_class(not here, "-first-run")
        if not here:
            self.query_one("#welcome", Static).update(
                f"There is no model on this disk yet. A good first one is the starter, {starter.name} (about "
                f"{human_bytes(starter.size)}). Enter fetches the model that is marked."
            )
        here += [choice for choice in choices if choice.place == "server"]
        self._show(next((choice.key for choice in here if choice.name == self._in_use), None))
        ask_servers(self._settings, lambda server, rows: self.post_message(self.Answered(server, rows)))

    # What there is

    def _read_library(self) -> None:
        """Take the rows afresh, keeping what is known of files that were described before."""
        self._describe(self._shelf.read())
        self._models.choices = self._shelf.rows(self._models.wanted)

    @on(Answered)
    def _server_answered(self, message: Answered) -> None:
        """Put the rows of a server where its first one was; the cursor stays, or goes to the model in use."""
        models, at = self._models, self._models.at_key
        self._shelf.answered(message.server, message.rows)
        models.choices = self._shelf.rows(models.wanted)
        if not self._moved_by_hand:
            at = next((row.key for row in message.rows if row.name == self._in_use), at)
        self._show(at)

    @work(thread=True, exclusive=True, group="describe")
    def _describe(self, choices: list[Choice]) -> None:
        worker = get_current_worker()
        for choice in choices:
            described = completed(choice, self._settings.kv, self._settings.ctx, self._shelf.free)
            if worker.is_cancelled:
                return
            self.post_message(self.Described(described))

    @on(Described)
    def _complete(self, message: Described) -> None:
        choice, models = message.choice, self._models
        self._shelf.described(choice)
        models.choices = self._shelf.rows(models.wanted)
        if choice.problem and choice.key == models.at_key and not self._moved_by_hand:
            self._show()
        else:
            self._redraw()

    # What is shown

    def _show(self, at: str | None = None) -> None:
        self._models.show(at)
        self._explain()

    def _redraw(self) -> None:
        self._models.redraw()
        self._explain()

    def _explain(self) -> None:
        """The lines below the list: about the row at the cursor, and the keys that do something now."""
        choice = self._models.at
        if choice is None:
            said = Content("Nothing here has all of these words.")
        else:
            verdict = self._verdicts.get(choice.key, "")
            said = self._said.get(choice.key) or detail(choice, self._models.row_width, verdict)
        self.query_one("#detail", Static).update(said)
        self._hint()

    def _hint(self) -> None:
        choice, download = self._models.at, self._models.download
        if download:
            here = choice is not None and choice.key == download.choice.key
            switch = "Enter goes on" if download.paused else "Enter pauses it"
            doing = step(download.transfer, download.choice, paused=download.paused)
            hints = [f"{shown_name(download.choice)}: {doing}", *([switch] if here else []), "Esc stops it"]
        elif self._asking:
            why = [escaped(self._asking_note)] if self._asking_note else []  # last, as it may be cut
            hints = [f"asking for {escaped(self._asking)} ...", "Esc stops it", *why]
        elif choice and choice.usable:
            hints = [_ENTER[choice.place], *(["Del removes it"] if self._removable(choice) else []), "Esc closes"]
        else:
            hints = ["Esc closes"]
        self.query_one("#hints", Static).update(" · ".join(hints))

    def _removable(self, choice: Choice | None) -> bool:
        """Whether it is what a download has left that nobody goes on with now."""
        running = self._models.download
        return (
            choice is not None
            and choice.place == "unfinished"
            and choice.usable
            and (running is None or running.choice.name != choice.name)
        )

    @on(events.Resize)
    def _fit_width(self) -> None:
        self.call_after_refresh(self._redraw)

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._models.wanted = event.value
        self._models.choices = self._shelf.rows(event.value)
        self._show(self._models.at_key)

    def _clear_filter(self) -> None:
        with self.prevent(Input.Changed):
            self.query_one(Input).value = self._models.wanted = ""

    @on(OptionList.OptionHighlighted)
    def _cursor_moved(self) -> None:
        self._models.show_heading()
        self._redraw()
