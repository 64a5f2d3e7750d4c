"""The model picker: choose a model of this disk, or fetch one of the catalogue or of a repository and choose it.

The filter keeps the focus the whole time, and the keys that move go to the list. What each key does is decided here.
"""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList, Static

from app.settings import LOCAL
from app.ui.screens.picker.downloads import Downloads
from app.ui.screens.picker.text import shown_name


class PickerScreen(Downloads):
    """Dismisses with what `--model` takes, or None.

    `in_use` is the open model and `held` the bytes that it would give back if another took its place.
    """

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop_or_close", "Close"),
        Binding("ctrl+c", "stop", "Stop the download", show=False, priority=True),
        Binding("delete,ctrl+d", "remove", "Remove what is here", show=False, priority=True),
        Binding("up", "move('cursor_up')", "Up", show=False),
        Binding("down", "move('cursor_down')", "Down", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
        Binding("ctrl+home", "move('first')", "First", show=False),
        Binding("ctrl+end", "move('last')", "Last", show=False),
    ]

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
            name = shown_name(download.choice)
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
        """Stop the download that runs, or asking for a repository; without either, close."""
        if self._models.download:
            self.action_stop()
        elif self._asking:
            self._stop_asking()
            self._redraw()
        else:
            self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ctrl-C is this screen's only while there is something to stop, Del while the filter has no use for it."""
        if action == "remove":
            typed = self.query_one(Input)
            return self._removable(self._models.at) and typed.cursor_at_end and typed.selection.is_empty
        return action != "stop" or self._models.download is not None
