"""What a model thought before it answered: one line, and under it the text once somebody opens it.

Nothing is laid out while the pane is closed; a long thought costs a counter a second and no more.
"""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.reactive import reactive
from textual.widgets import Static

from app.cli.terminal import escape_controls


class ThinkingPane(Vertical):
    """`opened` shows the text. Live until `finish` is called."""

    DEFAULT_CSS = """
    ThinkingPane {
        height: auto;
        margin: 0 0 1 0;
        #thinking-line { color: $text-muted; width: auto; &:hover { text-style: underline; } }
        #thinking-text { color: $text-muted; border-left: outer $panel; padding: 0 1; height: auto; }
    }
    """

    opened: reactive[bool] = reactive(False)

    def __init__(self, text: str = "", seconds: float | None = None, tokens: int = 0, *, live: bool = False) -> None:
        super().__init__()
        self._text = text
        self._seconds = seconds
        self._tokens = tokens
        self._since = time.monotonic() if live else None

    def compose(self) -> ComposeResult:
        yield Static(self._line(), id="thinking-line")

    def on_mount(self) -> None:
        if self._since is not None:
            self.set_interval(1.0, self._tick)
        if self.opened:
            self._lay_out()

    def append(self, text: str, tokens: int) -> None:
        """More was thought; `tokens` of the reply so far, 0 where that is not known."""
        self._text += text
        self._tokens = tokens
        if self.opened and self.is_mounted:  # before that the line is not there yet, which the text belongs under
            self._lay_out()

    def finish(self, seconds: float | None, tokens: int) -> None:
        """The thought has ended."""
        self._since, self._seconds, self._tokens = None, seconds, tokens
        self._tick()

    def on_click(self, event: Click) -> None:
        if event.widget is not None and event.widget.id == "thinking-line":
            self.opened = not self.opened

    def watch_opened(self) -> None:
        if self.is_mounted:
            self._tick()
            self._lay_out()

    def _tick(self) -> None:
        if self.is_mounted:
            self.query_one("#thinking-line", Static).update(self._line())

    def _line(self) -> Content:
        tokens = f" · {self._tokens:,} tokens" if self._tokens else ""
        arrow = "▾" if self.opened else "▸"
        if self._since is not None:
            return Content(f"{arrow} Thinking… {time.monotonic() - self._since:.0f} s{tokens}")
        took = f" for {duration(self._seconds)}" if self._seconds is not None else ""
        return Content(f"{arrow} Thought{took}{tokens}")

    def _lay_out(self) -> None:
        texts = self.query("#thinking-text")
        if not self.opened:
            texts.remove()
            return
        content = Content(escape_controls(self._text.strip("\n")))
        if texts:
            texts.first(Static).update(content)
        else:
            self.mount(Static(content, id="thinking-text", markup=False))


def duration(seconds: float) -> str:
    """Seconds as a person says them: "0.4 s", "14 s", "2 min 5 s"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
