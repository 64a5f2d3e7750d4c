"""Small dialogs: one line to type, a question with yes and no, a text to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from app.cli.terminal import escape_controls
from app.ui.widgets.one_line import OneLineInput

_CSS = """
{name} {{
    align: center middle;
    & > #dialog {{
        width: 72;
        max-width: 94%;
        height: auto;
        max-height: 94%;
        border: round $border;
        border-title-style: bold;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
        background: $surface;
        padding: 1 2;
        scrollbar-size-vertical: 1;
    }}
}}
"""


TextForWidth = Callable[[int], Content]  # a text laid out for so many cells


def tell_keys(dialog: Widget, title: str, keys: str) -> None:
    """A dialog's title and keys (no markup), in its border, where they are seen however far it is scrolled."""
    dialog.border_title = Content(title)
    dialog.border_subtitle = Content(keys)


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
        with Vertical(id="dialog") as dialog:
            tell_keys(dialog, self._title, "Enter takes it · Esc cancels")
            yield OneLineInput(self._value, placeholder=self._placeholder, select_on_focus=False)

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
        with Vertical(id="dialog") as dialog:
            tell_keys(dialog, self._question, "Enter or y: yes · Esc or n: no")
            yield Static(Content(escape_controls(self._detail)))


class ShowText(ModalScreen[None]):
    """A text to read, scrolled with the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss(None)", "Close")]
    DEFAULT_CSS = _CSS.format(name="ShowText") + "ShowText > #dialog { width: 112; }"

    def __init__(self, title: str, text: str | Content | TextForWidth) -> None:
        super().__init__()
        self._title = title
        self._text = Content(escape_controls(text)) if isinstance(text, str) else text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as scroll:
            scroll.can_focus = True
            tell_keys(scroll, self._title, "Esc closes")
            yield _Text(self._text)


class _Text(Static):
    """A text, laid out for each width that it is given."""

    def __init__(self, text: Content | TextForWidth) -> None:
        super().__init__(text if isinstance(text, Content) else "")
        self._text = text

    def on_resize(self, event: Resize) -> None:
        if not isinstance(self._text, Content):
            self.update(self._text(event.size.width))
