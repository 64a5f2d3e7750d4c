"""The model picker: choose a model of this disk, or fetch one of the catalogue or of a repository and choose it.

The filter keeps the focus the whole time, and the keys that move go to the list. Files are described and models are
fetched in threads, which only post messages; everything that the screen shows is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.worker import get_current_worker

from app.cli.progress import human_bytes
from app.errors import QChatError
from app.hub.catalogue.repository import Repository, look
from app.hub.choices import Choice, Place, completed
from app.hub.fit import free_memory
from app.hub.library import Library
from app.hub.transfer import Transfer
from app.settings import LOCAL, Settings
from app.ui.screens import picker_rows
from app.ui.screens.picker_download import Download, Outcome
from app.ui.screens.picker_list import ModelList
from app.ui.screens.picker_servers import ask_servers
from app.ui.screens.picker_shelf import Shelf
from app.ui.widgets.one_line import OneLineInput

_ENTER: Mapping[Place, str] = {
    "disk": "Enter chooses it",
    "unfinished": "Enter goes on with it",
    "repository": "Enter asks for it",
    "offer": "Enter downloads it",
    "catalogue": "Enter downloads it",
    "server": "Enter chooses it",
}


class PickerScreen(ModalScreen[str | None]):
    """Dismisses with what `--model` takes, or None.

    `in_use` is the open model and `held` the bytes that it would give back if another took its place.
    """

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop_or_close", "Close"),
        Binding("ctrl+c", "stop", "Stop the download", show=False, priority=True),
        Binding("up", "move('cursor_up')", "Up", show=False),
        Binding("down", "move('cursor_down')", "Down", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
        Binding("ctrl+home", "move('first')", "First", show=False),
        Binding("ctrl+end", "move('last')", "Last", show=False),
    ]

    @dataclass
    class Described(Message):
        """The header of a file has been read."""

        choice: Choice

    @dataclass
    class Answered(Message):
        """A server has told its models, or is not there."""

        server: str
        rows: list[Choice]

    @dataclass
    class Listed(Message):
        """The hub has told what a repository offers, or why it does not."""

        choice: Choice
        answer: Repository | QChatError

    @dataclass
    class Moved(Message):
        """A download went on."""

        transfer: Transfer

    @dataclass
    class Ended(Message):
        """A download is over."""

        outcome: Outcome

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
                "There is no model on this disk yet. The starter is a good first one: press Enter to fetch "
                f"{starter.name} (about {human_bytes(starter.size)})."
            )
        here += [choice for choice in choices if choice.place == "server"]
        self._show(next((choice.key for choice in here if choice.name == self._in_use), None))
        ask_servers(self._settings, lambda server, rows: self.post_message(self.Answered(server, rows)))

    def on_unmount(self) -> None:
        """A download does not outlive the screen that shows it."""
        self.action_stop()

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
            detail = Content("Nothing here has all of these words.")
        else:
            verdict = self._verdicts.get(choice.key, "")
            detail = self._said.get(choice.key) or picker_rows.detail(choice, self._models.row_width, verdict)
        self.query_one("#detail", Static).update(detail)
        self._hint()

    def _hint(self) -> None:
        choice, download = self._models.at, self._models.download
        if download:
            here = choice is not None and choice.key == download.choice.key
            switch = "Enter goes on" if download.paused else "Enter pauses it"
            step = picker_rows.step(download.transfer, download.choice, paused=download.paused)
            hints = [f"{picker_rows.shown_name(download.choice)}: {step}", *([switch] if here else []), "Esc stops it"]
        elif self._asking:
            hints = [f"asking for {picker_rows.escaped(self._asking)} ...", "Esc closes"]
        elif choice and choice.usable:
            hints = [_ENTER[choice.place], "Esc closes"]
        else:
            hints = ["Esc closes"]
        self.query_one("#hints", Static).update(" · ".join(hints))

    # What a person does

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

    def action_move(self, how: str) -> None:
        """Move the cursor of the list."""
        self._moved_by_hand = True
        getattr(self._models, f"action_{how}")()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose(self) -> None:
        choice, download = self._models.at, self._models.download
        if choice is None or not choice.usable:
            self.app.bell()
        elif download and choice.key == download.choice.key:
            download.pause_or_resume()
            self._redraw()
        elif download:
            name = picker_rows.shown_name(download.choice)
            self.query_one("#detail", Static).update(f"{name} is being downloaded; Esc stops that first.")
        elif choice.place == "server":
            self.dismiss(choice.name)
        elif choice.place == "disk":
            away = self._settings.backend != LOCAL  # then the name alone would mean a model there
            self.dismiss(f"{LOCAL}/{choice.name}" if away else choice.name)
        elif choice.place == "repository":
            self._ask(choice)
        else:
            self._start(choice)

    def action_stop_or_close(self) -> None:
        """Stop the download that runs; without one, close."""
        if self._models.download:
            self.action_stop()
        else:
            self.dismiss(None)

    def action_stop(self) -> None:
        """Stop the download that runs."""
        if self._models.download:
            self._models.download.stop()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ctrl-C is this screen's only while there is something to stop."""
        return action != "stop" or self._models.download is not None

    # A repository

    def _ask(self, choice: Choice) -> None:
        if not self._asking:
            self._asking = choice.name
            self._said.pop(choice.key, None)
            self._redraw()
            self._look(choice)

    @work(thread=True, group="ask")
    def _look(self, choice: Choice) -> None:
        try:
            self.post_message(self.Listed(choice, look(choice.name.removeprefix("hf:"), self._shelf.free)))
        except QChatError as error:
            self.post_message(self.Listed(choice, error))

    @on(Listed)
    def _listed(self, message: Listed) -> None:
        self._asking = ""
        key: str | None = message.choice.key
        if isinstance(message.answer, QChatError):
            self._said[message.choice.key] = picker_rows.failure(message.answer)
        else:
            offers = self._shelf.offer(message.answer)
            key = next((offer.key for offer in offers if offer.usable), None)
            if not offers:
                self._said[message.choice.key] = Content(f"{message.answer.name} has no .gguf file to fetch.")
                self._shelf.forget_offers()
                key = message.choice.key
        self._models.choices = self._shelf.rows(self._models.wanted)
        self._show(key)

    # A download

    def _start(self, choice: Choice) -> None:
        download = Download(choice, self._library, self._report)
        self._models.download = download
        self._said.pop(choice.key, None)
        self._models.failed.discard(choice.key)
        self._redraw()
        self._fetch(download)

    def _report(self, transfer: Transfer) -> None:
        self.post_message(self.Moved(transfer))

    @work(thread=True, group="download")
    def _fetch(self, download: Download) -> None:
        self.post_message(self.Ended(download.run()))

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        if self._models.download:
            self._models.download.transfer = message.transfer
            self._models.redraw()
            self._hint()

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        download, outcome = self._models.download, message.outcome
        assert download is not None
        key, self._models.download = download.choice.key, None
        if outcome.entry is not None:
            self.remove_class("-first-run")
            if download.choice.place == "offer":  # the filter is the repository's name, which the model has not
                self._shelf.forget_offers()
                self._clear_filter()
            self._read_library()
            key = next(row.key for row in self._models.choices if row.path == outcome.entry.path)
            self._verdicts[key] = download.verdict
        elif outcome.error is not None:
            self._models.failed.add(key)
            self._said[key] = picker_rows.failure(outcome.error)
        else:
            self._read_library()  # what came is a row of its own now
            half = (row for row in self._models.choices if row.place == "unfinished")
            key = next((row.key for row in half if row.name == download.choice.name), key)
            name = picker_rows.shown_name(download.choice)
            self._said[key] = Content(f"The download of {name} was stopped; Enter goes on with it.")
        self._show(key)
