"""The settings of one chat: its system prompt, thinking, the longest reply and how tokens are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from app.chat.chat_settings import CHAT_SETTINGS, allowed, read_change, short_name
from app.cli.terminal import escape_controls
from app.errors import UsageError
from app.ui.screens.dialog import tell_keys
from app.ui.widgets.one_line import OneLineInput


class SettingsScreen(ModalScreen[Mapping[str, Any] | None]):
    """Dismisses with what was changed, by dotted key; None gives a setting back to the defaults.

    `own` are the settings that the chat has itself, `inherited` what holds where it has none.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss(None)", "Cancel"),
        ("ctrl+s,f2", "save", "Save"),
    ]
    DEFAULT_CSS = """
    SettingsScreen {
        align: center middle;
        & > #dialog {
            width: 84;
            max-width: 94%;
            height: auto;
            max-height: 94%;
            scrollbar-size-vertical: 1;
            border: round $border;
            border-title-style: bold;
            border-title-color: $text;
            border-subtitle-color: $text-muted;
            background: $surface;
            padding: 1 2;
        }
        #system { height: 4; margin: 0 0 1 0; background: $panel; }
        .row { height: 1; }
        .name { width: 20; }
        .row Input { width: 16; background: $panel; }
        .range { width: 1fr; color: $text-muted; padding: 0 0 0 2; }
        #settings-error { color: $text-error; height: auto; }
    }
    """

    def __init__(self, own: Mapping[str, Any], inherited: Mapping[str, Any]) -> None:
        super().__init__()
        self._own = {key: own[key] for key in CHAT_SETTINGS if key in own}
        self._inherited = inherited

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as scroll:
            scroll.can_focus = False
            tell_keys(scroll, "Settings of this chat", "Enter or F2 saves · Esc cancels · an empty field: the default")
            yield Static(Content("System prompt"))
            yield TextArea(
                str(self._own.get("system", "")),
                id="system",
                compact=True,
                placeholder=escape_controls(str(self._inherited["system"])) or "none",
            )
            for key in CHAT_SETTINGS[1:]:
                with Horizontal(classes="row"):
                    yield Static(Content(short_name(key).replace("_", " ")), classes="name")
                    yield OneLineInput(
                        str(self._own.get(key, "")),
                        placeholder=str(self._inherited[key]),
                        compact=True,
                        id=key.replace(".", "-"),
                    )
                    yield Static(Content(allowed(key)), classes="range")
            yield Static(id="settings-error")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_save()

    def action_save(self) -> None:
        """Take what was typed, if all of it is allowed."""
        texts = {key: self.query_one(f"#{key.replace('.', '-')}", Input).value for key in CHAT_SETTINGS[1:]}
        texts["system"] = self.query_one("#system", TextArea).text
        changes: dict[str, Any] = {}
        for key, text in texts.items():
            if text == str(self._own.get(key, "")):
                continue
            try:
                changes |= read_change(key, text) if text else {key: None}
            except UsageError as error:
                told = Content(escape_controls(f"{error.message}: {error.hint}"))
                self.query_one("#settings-error", Static).update(told)
                self.query_one(f"#{key.replace('.', '-')}").focus()
                return
        self.dismiss(changes)
