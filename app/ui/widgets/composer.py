"""Where a message is written: several lines, history, completion of slash commands, and pastes of any size.

Enter sends. A terminal without bracketed paste delivers a paste as keys, Enter among them, and no person presses Enter
within milliseconds of another key: such an Enter is part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from app.chat.text import well_formed
from app.ui.actions import slash_commands

PASTED_WITHIN_S = 0.015
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Composer(TextArea):
    """The message that is being written. `send_keys` and `newline_keys` are Textual's names of keys."""

    DEFAULT_CSS = """
    Composer {
        height: auto;
        min-height: 3;
        max-height: 12;
        border: round $border-blurred;
        background: $background;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        border-title-color: $text-accent;
        &:focus { border: round $border; }
        & .text-area--placeholder { color: $text-muted; }
    }
    """

    @dataclass
    class Sent(Message):
        """The person sent `text`."""

        text: str

    def __init__(self, send_keys: Sequence[str], newline_keys: Sequence[str]) -> None:
        super().__init__(
            placeholder="Ask something. / for commands", highlight_cursor_line=False, soft_wrap=True, id="composer"
        )
        self._send_keys = frozenset(send_keys)
        self._newline_keys = frozenset(newline_keys)
        self._history: Sequence[str] = ()  # oldest first
        self._recalled: int | None = None  # place in the history that is shown
        self._draft = ""  # what was written before the history was looked at
        self._last_key_at = 0.0

    def set_history(self, entries: Sequence[str]) -> None:
        """What the up key brings back, oldest first."""
        self._history = entries
        self._recalled = None

    def set_text(self, text: str) -> None:
        """Replace the draft, with the cursor at its end; undo brings back what was there."""
        start, end = self.document.start, self.document.end
        self.replace(text, start, end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    def get_cursor_left_location(self) -> tuple[int, int]:
        """One visible character to the left, however many code points it has; Backspace and the arrow go by it."""
        row, column = self.cursor_location
        if column == 0:
            return super().get_cursor_left_location()
        return row, column - len(_graphemes(self.document[row][:column])[-1])

    def get_cursor_right_location(self) -> tuple[int, int]:
        """One visible character to the right."""
        row, column = self.cursor_location
        line = self.document[row]
        if column == len(line):
            return super().get_cursor_right_location()
        return row, column + len(_graphemes(line[column:])[0])

    def on_resize(self) -> None:
        """The terminal's own cursor goes along, since an input method opens its window there."""
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset

    def take_out(self, sent: str) -> None:
        """Take out what was sent; what has been typed since then stays."""
        text = well_formed(self.text)
        self.set_text(text.removeprefix(sent) if text.startswith(sent) else "")

    async def _on_key(self, event: events.Key) -> None:
        pasted = event.time - self._last_key_at < PASTED_WITHIN_S
        self._last_key_at = event.time
        if event.key in self._newline_keys or (event.key in self._send_keys and pasted):
            self._take(event)
            self._insert("\n")
        elif event.key in self._send_keys:
            self._take(event)
            self.post_message(self.Sent(well_formed(self.text)))
        elif event.key == "tab" and (completed := self._completed()):
            self._take(event)
            self.set_text(completed)
        elif self._leaves_the_draft(event.key) and self._recall(-1 if event.key == "up" else +1):
            self._take(event)
        elif event.key.startswith("alt+"):
            event.prevent_default()  # such a key may carry its letter, which is not meant to be written
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        """A terminal's control characters have no place in a message; that some were left out is said."""
        event.stop()
        event.prevent_default()
        text = well_formed(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        kept = _CONTROLS.sub("", text)
        if left_out := len(text) - len(kept):
            self.app.notify(f"{left_out:,} control characters were left out of the paste", severity="warning")
        self._insert(kept)

    def _leaves_the_draft(self, key: str) -> bool:
        row = self.cursor_location[0]
        return (key == "up" and row == 0) or (key == "down" and row == self.document.line_count - 1)

    def _take(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    def _insert(self, text: str) -> None:
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    def _recall(self, step: int) -> bool:
        """Show the entry `step` places on in the history; past its end the draft comes back."""
        here = len(self._history) if self._recalled is None else self._recalled
        place = here + step
        if not 0 <= place <= len(self._history) or place == here == len(self._history):
            return False
        if self._recalled is None:
            self._draft = self.text
        self._recalled = place if place < len(self._history) else None
        self.set_text(self._draft if self._recalled is None else self._history[place])
        if step < 0:
            self.move_cursor((0, 0))
        return True

    def _completed(self) -> str | None:
        """The draft with its slash command completed, as far as that is certain."""
        names = matching_commands(self.text)
        if not names:
            return None
        shared = names[0]
        for name in names[1:]:
            while not name.startswith(shared):
                shared = shared[:-1]
        whole = f"/{shared}" + (" " if len(names) == 1 else "")
        return whole if whole != self.text else None


def _graphemes(text: str) -> Sequence[str]:
    from wcwidth import iter_graphemes  # noqa: PLC0415 - slow; the first picture needs none

    return [*iter_graphemes(text)]


def matching_commands(draft: str) -> Sequence[str]:
    """The slash commands (without the slash) that `draft` may become; none once there is more than one word."""
    if not draft.startswith("/") or any(c.isspace() for c in draft):
        return ()
    return [action.slash for action in slash_commands() if action.slash.startswith(draft[1:].lower())]
