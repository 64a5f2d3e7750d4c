"""Textual's driver for a terminal that does what terminals do: it sends bytes that are no UTF-8, and it goes away.

Textual ends without a word at the first such byte (an é from a Latin-1 terminal, a paste of a binary file), and hangs
with its output half written when the window is closed.
"""

from __future__ import annotations

import codecs
import os
import selectors
from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any, cast

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste

from app.ui.pasted import PasteSplitter

if TYPE_CHECKING:
    from app.ui.app import QChatApp

_LOOK_EVERY_S = 0.1  # whether reading is to end
_READ_BYTES = 65536


class TerminalDriver(LinuxDriver):
    """Reads what is no UTF-8 as U+FFFD and pastes as nothing but text, and tells the app once the terminal is gone."""

    def __init__(self, app: QChatApp, **options: Any) -> None:
        super().__init__(app, **options)
        self._file = cast("Any", _Output(cast("IO[str]", self._file), self._gone))

    def run_input_thread(self) -> None:
        """Read keys until `exit_event` is set. Runs in a thread."""
        parser = XTermParser(self._debug)
        splitter = PasteSplitter()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        wait_s = _LOOK_EVERY_S
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = selector.select(wait_s)
                wait_s = constants.ESCAPE_DELAY if ready else _LOOK_EVERY_S  # an escape may be the last that was read
                if ready:
                    data = self._read()
                    if not data:
                        self._gone()
                        return
                    pieces: Iterable[str | Paste] = splitter.feed(decode(data))
                else:
                    pieces = splitter.silence()
                for piece in pieces:
                    for event in [piece] if isinstance(piece, Paste) else parser.feed(piece):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:
            return b""

    def _gone(self) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(cast("QChatApp", self._app).terminal_gone)


class _Output:
    """The terminal as the driver's writer has it; what cannot be written because nobody is there is dropped."""

    def __init__(self, file: IO[str], on_gone: Callable[[], None]) -> None:
        self._file = file
        self._on_gone = on_gone

    def write(self, text: str) -> None:
        """Write, or tell that nobody is there."""
        self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        """Flush, or tell that nobody is there."""
        self._try(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError:
            self._on_gone()
