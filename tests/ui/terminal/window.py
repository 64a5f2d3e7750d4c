"""The app on a pseudo-terminal, where every byte that it writes can be looked at."""

from __future__ import annotations

import os
import re
import select
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.ui.widgets.composer import PASTED_WITHIN_S
from tests.ui.repl.terminal import ENTER, PATIENCE_S, Terminal

QUIT, STOP = "\x11", "\x1b"
WAITING = "Ask something"  # in an empty message
_ENDED = {
    "1049": "l",
    "25": "h",
    "1000": "l",
    "1003": "l",
    "1015": "l",
    "1006": "l",
    "1004": "l",
    "2004": "l",
    "7": "h",
}


class Window(Terminal):
    """The app, begun in `home` and ready for a question. `env`: as of `Terminal`."""

    def __init__(self, home: Path, *arguments: str, env: Mapping[str, str | None] | None = None) -> None:
        clean = {"QCHAT_HOME": str(home), "COLORTERM": None, "NO_COLOR": None, "TMUX": None, "TERM_PROGRAM": None}
        super().__init__("tests.ui.terminal.scripted", *arguments, env=clean | dict(env or {}), columns=110)

    def ready(self) -> Window:
        """Wait until a question can be typed."""
        self.expect(WAITING)
        return self

    def send(self, text: str) -> None:
        """Send a message or a command as a person does: the Enter comes later than the last letter is shown."""
        self.type(text)
        self.expect(text)
        time.sleep(2 * PASTED_WITHIN_S)
        self.type(ENTER)

    def until(self, true: Callable[[], object]) -> None:
        """Wait until `true`, while reading what the app writes."""
        end = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end, f"waited in vain; the screen is:\n{self.text}"
            if select.select([self._master], [], [], 0.02)[0]:
                self._read()

    def set_modes(self, modes: list[Any]) -> None:
        """Set the terminal's modes, as a shell does."""
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)

    def hang_up(self) -> None:
        """Close the window."""
        for end in (self._master, self._slave):
            os.close(end)
        self._master, self._slave = os.pipe()

    def was_given_back(self) -> bool:
        """Whether the terminal is as it was found: echo, main screen, cursor, no mouse, no other modes."""
        modes = {number.decode(): state.decode() for number, state in re.findall(rb"\x1b\[\?(\d+)([hl])", self.raw)}
        keyboard = len(re.findall(rb"\x1b\[>\d+u", self.raw)) == self.raw.count(b"\x1b[<u")
        return modes == _ENDED and keyboard and self.modes == self.modes_before

    @property
    def last_words(self) -> str:
        """What stands on the main screen after the app."""
        return re.split(rb"\x1b\[[?\d]+[hl]", self.raw)[-1].decode().replace("\r\n", "\n")
