"""The keys that do something now, in the last row: the look of Textual's footer, as one widget.

Textual's has a widget a key and makes all of them anew whenever the focus moves, and every layout visits each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

_WHEEL = 4  # cells that the wheel moves a line which is wider than the window


class _Key(NamedTuple):
    """One key as it is shown, `width` cells from `start`."""

    key: str
    shown: str
    title: str
    help: str
    enabled: bool
    start: int
    width: int


class KeyLine(Widget, can_focus=False):
    """A click on a key presses it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--title", "key-line--hover"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $background;
        .key-line--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        .key-line--title {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
        .key-line--hover { background: $block-hover-background; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[_Key] = []
        self._left = 0  # cells of the line that are left of the window
        self._under: _Key | None = None  # the mouse

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._read_bindings)

    def _read_bindings(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus:  # nobody writes here, and what is shown is right when somebody comes back
            return
        keys = list(self._now(screen))
        if keys != self._keys:
            self._keys = keys
            self._left = 0
            self._look_at(None)
            self.refresh()

    def _now(self, screen: Screen[object]) -> Iterator[_Key]:
        start = 0
        actions = set()
        for _, binding, enabled, tooltip in screen.active_bindings.values():
            if binding.show and binding.action not in actions:
                actions.add(binding.action)
                shown = self.app.get_key_display(binding)
                width = cell_len(shown) + cell_len(binding.description) + 3
                yield _Key(binding.key, shown, binding.description, tooltip, enabled, start, width)
                start += width

    def render_line(self, y: int) -> Strip:
        line = self.rich_style
        key_style = self.get_component_rich_style("key-line--key")
        title_style = self.get_component_rich_style("key-line--title")
        hover = self.get_component_rich_style("key-line--hover")
        segments = []
        for key in self._keys:
            over = Style(bgcolor=hover.bgcolor) if key is self._under else Style()
            over += Style(dim=not key.enabled or None)
            segments += [
                Segment(f" {key.shown} ", line + key_style + over),
                Segment(f"{key.title} ", line + title_style + over),
            ]
        width = self.size.width
        empty = Style(bgcolor=line.bgcolor)
        return Strip(segments).crop(self._left, self._left + width).adjust_cell_length(width, empty)

    def _at(self, x: int) -> _Key | None:
        place = x + self._left
        return next((key for key in self._keys if key.start <= place < key.start + key.width), None)

    def _look_at(self, key: _Key | None) -> None:
        if key is not self._under:
            self._under = key
            self.tooltip = key.help if key else None
            self.styles.pointer = "pointer" if key else "default"
            self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._look_at(self._at(event.x))

    def on_leave(self) -> None:
        self._look_at(None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if (key := self._at(event.x)) is None:
            return
        if key.enabled:
            self.app.simulate_key(key.key)
        else:
            self.app.bell()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll_by(_WHEEL, event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll_by(-_WHEEL, event)

    def _scroll_by(self, cells: int, event: events.Event) -> None:
        whole = sum(key.width for key in self._keys)
        left = max(min(self._left + cells, whole - self.size.width), 0)
        if left != self._left:
            event.stop()
            self._left = left
            self.refresh()
