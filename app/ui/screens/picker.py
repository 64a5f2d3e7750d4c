"""The model picker: choose a model of this disk, or fetch one of the catalogue and choose it.

The filter keeps the focus the whole time, and the keys that move go to the list. Files are described and models are
fetched in threads, which only post messages; everything that the screen shows is decided here.
"""

from __future__ import annotations

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
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from app.backends.registry import backend_names
from app.cli.progress import human_bytes
from app.errors import DownloadError, QChatError
from app.hub.choices import Choice, completed, in_catalogue, matching, of_backends, on_disk
from app.hub.download import pull
from app.hub.fit import free_memory
from app.hub.library import Library, ModelEntry
from app.hub.transfer import Transfer, TransferMeter
from app.hub.web import Cancelled
from app.settings import Settings
from app.ui.screens import picker_rows
from app.ui.screens.picker_rows import Columns, columns_of
from app.ui.widgets.one_line import OneLineInput

CURSOR = Content.styled("› ", "bold $text-primary")  # seen without colours, too


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
    class Moved(Message):
        """A download went on."""

        transfer: Transfer

    @dataclass
    class Ended(Message):
        """A download is over: with a model, an error, or neither because it was stopped."""

        entry: ModelEntry | None
        error: QChatError | None

    def __init__(self, library: Library, settings: Settings, *, in_use: str = "", held: int = 0) -> None:
        super().__init__()
        self._library = library
        self._settings = settings
        self._in_use = in_use
        free = free_memory()
        self._free = None if free is None else free + held
        self._choices: list[Choice] = []
        self._moved_by_hand = False
        self._fetching: Choice | None = None
        self._meter: TransferMeter | None = None
        self._transfer: Transfer | None = None
        self._said: dict[str, Content] = {}  # by key of a row: how its last download ended
        self._failed: set[str] = set()

    def compose(self) -> ComposeResult:
        with Vertical(id="panel") as panel:
            panel.border_title = "Choose a model"
            if self._free is not None:
                panel.border_subtitle = f"{human_bytes(self._free)} of memory free"
            yield OneLineInput(placeholder="Type to filter", id="filter", compact=True)
            yield Static(id="welcome", markup=False)
            models = OptionList(id="models", markup=False)
            models.can_focus = False
            yield models
            yield Static(id="detail", markup=False)
            yield Static(id="hints", markup=False)

    def on_mount(self) -> None:
        self._read_library()
        here = [choice for choice in self._choices if choice.place == "disk"]
        starter = self._choices[0]
        self.set_class(not here, "-first-run")
        if not here:
            self.query_one("#welcome", Static).update(
                "There is no model on this disk yet. The starter is a good first one: press Enter to fetch "
                f"{starter.name} (about {human_bytes(starter.size)})."
            )
        self._show(next((choice.key for choice in here if choice.name == self._in_use), None))

    def on_unmount(self) -> None:
        """A download does not outlive the screen that shows it."""
        self.action_stop()

    # -- the rows

    def _read_library(self) -> None:
        """Take the rows afresh, keeping what is known of files that were described before."""
        kv, ctx = self._settings.kv, self._settings.ctx
        known = {choice.path: choice for choice in self._choices if choice.place == "disk" and choice.complete}
        here = on_disk(self._library)
        here = [known[row.path] if row.path in known and known[row.path].size == row.size else row for row in here]
        others = [*in_catalogue(here, kv, ctx, self._free), *of_backends(backend_names())]
        self._choices = [*here, *others]
        self._describe([choice for choice in here if not choice.complete])

    @work(thread=True, exclusive=True, group="describe")
    def _describe(self, choices: list[Choice]) -> None:
        worker = get_current_worker()
        for choice in choices:
            described = completed(choice, self._settings.kv, self._settings.ctx, self._free)
            if worker.is_cancelled:
                return
            self.post_message(self.Described(described))

    @on(Described)
    def _complete(self, message: Described) -> None:
        choice = message.choice
        self._choices = [choice if row.key == choice.key else row for row in self._choices]
        if choice.problem and choice.key == self._at_key and not self._moved_by_hand:
            self._show()
        else:
            self._redraw()
            self._explain()

    @property
    def _models(self) -> OptionList:
        return self.query_one("#models", OptionList)

    @property
    def _width(self) -> int:
        """Cells of a row, without the cursor before it and a space behind."""
        return max(20, self._models.scrollable_content_region.width - 3)

    def _options(self) -> list[Option]:
        """A heading and the rows of each section that has any."""
        shown = matching(self._choices, self.query_one("#filter", Input).value)
        options: list[Option] = []
        for place, columns in columns_of(self._choices, self._width).items():
            section = [choice for choice in shown if choice.place == place]
            if not section:
                continue
            if options:
                options.append(Option("", id=f"above {place}", disabled=True))
            title = picker_rows.heading(place, columns, self._width).pad_left(2)
            options.append(Option(title, id=f"heading {place}", disabled=True))
            options += [Option(self._row(choice, columns), id=choice.key) for choice in section]
        return options

    def _row(self, choice: Choice, columns: Columns) -> Content:
        in_use = choice.place == "disk" and choice.name == self._in_use
        row = picker_rows.row(choice, columns, self._width, in_use=in_use, failed=choice.key in self._failed)
        row = Content.assemble(CURSOR if choice.key == self._at_key else "  ", row)
        if choice is self._fetching and self._transfer:
            bar = picker_rows.bar(self._transfer, choice.size, self._width).pad_left(2)
            return Content.assemble(row, "\n", bar)
        return row

    def _show(self, at: str | None = None) -> None:
        """Fill the list, with the cursor at the row `at` or else at the first that can be chosen."""
        models = self._models
        models.set_options(self._options())
        keys = [option.id for option in models.options]
        usable = {choice.key for choice in self._choices if choice.usable}
        rows = [option.id for option in models.options if not option.disabled]
        key = at if at in rows else next((key for key in rows if key in usable), next(iter(rows), None))
        models.highlighted = keys.index(key) if key is not None else None
        self._explain()

    def _redraw(self) -> None:
        """Write the rows that are in the list anew."""
        for option in self._options():
            assert option.id is not None
            self._models.replace_option_prompt(option.id, option.prompt)

    @property
    def _at_key(self) -> str | None:
        option = self._models.highlighted_option
        return option.id if option else None

    @property
    def _at(self) -> Choice | None:
        key = self._at_key
        return next((choice for choice in self._choices if choice.key == key), None)

    def _explain(self) -> None:
        """The lines below the list: about the row at the cursor, and the keys that do something now."""
        choice = self._at
        if choice is None:
            detail = Content("Nothing here has all of these words.")
        else:
            detail = self._said.get(choice.key) or picker_rows.detail(choice, self._width)
        self.query_one("#detail", Static).update(detail)
        self._hint()

    def _hint(self) -> None:
        choice = self._at
        if self._fetching:
            step = picker_rows.step(self._transfer, self._fetching)
            hints = [f"{self._fetching.name}: {step}", "Esc stops it"]
        elif choice and choice.usable:
            hints = ["Enter chooses it" if choice.place == "disk" else "Enter downloads it", "Esc closes"]
        else:
            hints = ["Esc closes"]
        self.query_one("#hints", Static).update(" · ".join(hints))

    # -- what a person does

    @on(events.Resize)
    def _fit_width(self) -> None:
        self.call_after_refresh(self._redraw)
        self.call_after_refresh(self._explain)

    @on(Input.Changed)
    def _filter(self) -> None:
        self._show(self._at_key)

    @on(OptionList.OptionHighlighted)
    def _cursor_moved(self) -> None:
        models = self._models
        rows = [index for index, option in enumerate(models.options) if not option.disabled]
        if rows and models.highlighted == rows[0]:
            models.scroll_home(animate=False)  # the heading, too
        self._redraw()
        self._explain()

    def action_move(self, how: str) -> None:
        """Move the cursor of the list."""
        self._moved_by_hand = True
        getattr(self._models, f"action_{how}")()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _choose(self) -> None:
        choice = self._at
        if choice is None or not choice.usable:
            self.app.bell()
        elif self._fetching:
            detail = f"{self._fetching.name} is being downloaded; Esc stops that first."
            self.query_one("#detail", Static).update(detail)
        elif choice.place == "disk":
            self.dismiss(choice.name)
        else:
            self._start(choice)

    def action_stop_or_close(self) -> None:
        """Stop the download that runs; without one, close."""
        if self._fetching:
            self.action_stop()
        else:
            self.dismiss(None)

    def action_stop(self) -> None:
        """Stop the download that runs."""
        if self._meter:
            self._meter.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ctrl-C is this screen's only while there is something to stop."""
        return action != "stop" or self._fetching is not None

    # -- a download

    def _start(self, choice: Choice) -> None:
        self._fetching, self._transfer = choice, None
        self._meter = TransferMeter(self._report)
        self._said.pop(choice.key, None)
        self._failed.discard(choice.key)
        self._redraw()
        self._explain()
        self._fetch(choice, self._meter)

    def _report(self, transfer: Transfer) -> None:
        self.post_message(self.Moved(transfer))

    @work(thread=True, group="download")
    def _fetch(self, choice: Choice, meter: TransferMeter) -> None:
        try:
            ended = self.Ended(pull(choice.name, self._library, meter, meter.notify), None)
        except Cancelled:
            ended = self.Ended(None, None)
        except QChatError as error:
            ended = self.Ended(None, error)
        except OSError as error:
            ended = self.Ended(None, DownloadError(f"the models folder cannot be written: {error.strerror}"))
        self.post_message(ended)

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        if self._fetching:
            self._transfer = message.transfer
            self._redraw()
            self._hint()

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        choice, self._fetching, self._meter, self._transfer = self._fetching, None, None, None
        assert choice is not None
        if message.entry is not None:
            self.remove_class("-first-run")
            self._read_library()
            self._show(next(row.key for row in self._choices if row.path == message.entry.path))
        elif message.error is not None:
            self._failed.add(choice.key)
            self._said[choice.key] = picker_rows.failure(message.error)
            self._show(choice.key)
        else:
            self._said[choice.key] = Content(f"The download of {choice.name} was stopped; nothing of it was kept.")
            self._show(choice.key)
