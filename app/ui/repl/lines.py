"""Plain lines from standard input: a dumb terminal, a screen reader, a pipe or a file. Nothing here draws.

Each line is one entry. A line of three quotes begins an entry of several lines, and another one ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator

from app.errors import QChatError
from app.ui.history import InputHistory
from app.ui.repl.typed import InterruptError, Typed, as_typed

QUOTES = '"""'
TERMINAL_LINE_BYTES = 4095  # a terminal in line mode drops what is beyond, without a word
_MARK = b"\xef\xbb\xbf"


class LineSource:
    """Reads the descriptor of standard input, or nothing where that is closed. Implements `Source`.

    A thread waits for each line, because no loop can wait for a file. It reads only when a line is asked for, so that
    an editor in between has the terminal for itself.
    """

    edits = False

    def __init__(self, say: Callable[[str], None], history: InputHistory | None = None) -> None:
        """`history` gets what a person typed at a terminal; `say` shows a notice."""
        stdin = sys.stdin
        self._descriptor = None if stdin is None else stdin.fileno()
        self._at_terminal = stdin is not None and stdin.isatty()
        self._say = say
        self._history = history if self._at_terminal else None
        self._prompt = ""  # that is on the screen now
        self._pending = b""  # read, but no whole line yet
        self._at_start = True
        self._reading: asyncio.Future[bytes] | None = None
        self._interrupted: asyncio.Future[None] | None = None

    async def read(self, prompt: str, draft: str = "") -> Typed:
        text = await self._line(prompt)
        if text.strip() == QUOTES:
            lines: list[str] = []
            with contextlib.suppress(EOFError):
                while (line := await self._line("... ")).strip() != QUOTES:
                    lines.append(line)
            text = "\n".join(lines)
        if self._history is not None:
            try:
                self._history.add(text)
            except QChatError as error:
                self._say(error.message)
                self._history = None
        return Typed(text)

    def interrupt(self) -> bool:
        if not self._interrupted or not self._reading or self._reading.done():
            return False
        if not self._interrupted.done():
            self._interrupted.set_result(None)
        return True

    def aside(self, write: Callable[[], None]) -> None:
        if self._prompt:
            self._show("\n")
        write()
        self._show(self._prompt)

    @contextlib.contextmanager
    def while_busy(self, stop: Callable[[], None]) -> Iterator[None]:
        yield

    async def _line(self, prompt: str) -> str:
        self._prompt = prompt if self._at_terminal else ""
        self._show(self._prompt)
        loop = asyncio.get_running_loop()
        if self._reading is None:  # else an interrupted prompt still waits for its line
            self._reading = loop.create_future()
            threading.Thread(target=self._wait_for_line, args=(loop, self._reading), daemon=True).start()
        self._interrupted = loop.create_future()
        await asyncio.wait((self._reading, self._interrupted), return_when=asyncio.FIRST_COMPLETED)
        self._prompt = ""
        if not self._reading.done():
            raise InterruptError
        line, self._reading = self._reading.result(), None
        if not line:
            raise EOFError
        if self._at_start:
            line, self._at_start = line.removeprefix(_MARK), False
        if self._at_terminal and len(line) >= TERMINAL_LINE_BYTES:
            self._say(
                f"a terminal drops what is beyond {TERMINAL_LINE_BYTES:,} bytes of a line; /editor takes any text"
            )
        return as_typed(line.decode("utf-8", "surrogateescape")).rstrip("\r\n")

    def _show(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()

    def _wait_for_line(self, loop: asyncio.AbstractEventLoop, result: asyncio.Future[bytes]) -> None:
        line = self._next_line()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(result.set_result, line)

    def _next_line(self) -> bytes:
        """The next line with its end; b"" at the end of the input. Python's own reader would not let a program end."""
        while b"\n" not in self._pending and self._descriptor is not None:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                break
            self._pending += data
        line, newline, self._pending = self._pending.partition(b"\n")
        return line + newline
