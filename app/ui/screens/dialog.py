"""Small dialogs: one line to type, a question with yes and no, a text to read."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Paste
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from app.chat.text import well_formed
from app.cli.terminal import escape_controls

_CSS = """
{name} {{
    align: center middle;
    & > #dialog {{
        width: 72;
        max-width: 94%;
        height: auto;
        max-height: 90%;
        border: round $border;
        background: $surface;
        padding: 1 2;
    }}
    #dialog-title {{ text-style: bold; margin: 0 0 1 0; }}
    #dialog-keys {{ color: $text-muted; margin: 1 0 0 0; }}
}}
"""


_WIDE = """
ShowText {
    & > #dialog { width: 100; scrollbar-size-vertical: 1; }
    &.wide > #dialog { width: 112; }
    &.wide #dialog-text { text-wrap: nowrap; text-overflow: ellipsis; }
}
"""


class OneLineInput(Input):
    """A field of one line: what is pasted over several lines becomes one, and submits nothing."""

    def _on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        self.insert_text_at_cursor(" ".join(well_formed(event.text).split()))


class AskText(ModalScreen[str | None]):
    """Asks for one line; None if the person turned away."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "Cancel")]
    DEFAULT_CSS = _CSS.format(name="AskText")

    def __init__(self, title: str, value: str = "", placeholder: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content(self._title), id="dialog-title")
            yield OneLineInput(self._value, placeholder=self._placeholder, select_on_focus=False)
            yield Static(Content("Enter takes it · Esc cancels"), id="dialog-keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class Confirm(ModalScreen[bool]):
    """A question; Enter or y says yes, Esc or n says no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter,y", "dismiss(True)", "Yes"),
        ("escape,n", "dismiss(False)", "No"),
    ]
    DEFAULT_CSS = _CSS.format(name="Confirm")

    def __init__(self, question: str, detail: str = "") -> None:
        super().__init__()
        self._question = question
        self._detail = detail

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content(self._question), id="dialog-title")
            if self._detail:
                yield Static(Content(escape_controls(self._detail)))
            yield Static(Content("Enter: yes · Esc: no"), id="dialog-keys")


class ShowText(ModalScreen[None]):
    """A text to read, scrolled with the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss(None)", "Close")]
    DEFAULT_CSS = _CSS.format(name="ShowText") + _WIDE

    def __init__(self, title: str, text: str | Content, *, wide: bool = False) -> None:
        """`wide`: lines are columns, so they are cut rather than wrapped in a narrow window."""
        super().__init__(classes="wide" if wide else None)
        self._title = title
        self._text = Content(escape_controls(text)) if isinstance(text, str) else text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as scroll:
            scroll.can_focus = True
            yield Static(Content(self._title), id="dialog-title")
            yield Static(self._text, id="dialog-text")
            yield Static(Content("Esc closes"), id="dialog-keys")
