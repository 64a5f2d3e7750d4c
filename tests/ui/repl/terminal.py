"""A real terminal for a real program: a pseudo-terminal with pyte's screen on the other end."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyte

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0  # of a test on a busy machine

ENTER, CTRL_C, CTRL_D, CTRL_G, CTRL_J, ALT_ENTER, ESCAPE, UP = (
    "\r",
    "\x03",
    "\x04",
    "\x07",
    "\n",
    "\x1b\r",
    "\x1b",
    "\x1b[A",
)
PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"

# A program that begins a session of its own has no terminal to be signalled by until it takes one.
_TAKE_TERMINAL = "import fcntl, runpy, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "


class Terminal:
    """Runs `python -m module arguments`. `raw` is every byte that it wrote, `screen` what a person sees of it."""

    def __init__(
        self, module: str, *arguments: str, env: Mapping[str, str | None] | None = None, columns: int = 80
    ) -> None:
        self.raw = b""
        self.screen = pyte.Screen(columns, 40)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)} | dict(env or {})
        run = f"sys.argv = {[module, *arguments]!r}; runpy.run_module({module!r}, run_name='__main__')"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL + run],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={name: value for name, value in environment.items() if value is not None},
            start_new_session=True,
        )
        self._slave = slave
        self.modes_before = termios.tcgetattr(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def text(self) -> str:
        """The lines of the screen that are not empty."""
        return "\n".join(line.rstrip() for line in self.screen.display if line.strip())

    @property
    def modes(self) -> Sequence[object]:
        """The modes of the terminal now, as termios has them."""
        return termios.tcgetattr(self._slave)

    def type(self, keys: str) -> None:
        """Press keys, or deliver a paste of any size, while reading what comes back."""
        data = keys.encode("utf-8", "surrogateescape")
        while data:
            readable, writable, _ = select.select([self._master], [self._master], [], PATIENCE_S)
            if readable:
                self._read()
            if writable:
                data = data[os.write(self._master, data[:1024]) :]

    def expect(self, text: str) -> None:
        """Wait until the screen shows `text`."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.text:
            if not select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"{text!r} did not come; the screen is:\n{self.text}")
            self._read()

    def clear(self) -> None:
        """Forget what the screen shows, so that only what comes next is found."""
        self.screen.erase_in_display(2)

    def ask(self, text: str, answer: str) -> None:
        """Send `text` after what is typed already, and wait for the answer and the next prompt."""
        self.clear()
        if text:
            self.type(text)
            self.expect(text)
        self.type(ENTER)
        self.expect(answer)
        self.prompt()

    def ask_line(self, text: str, answer: str) -> None:
        """The same where the terminal itself takes the line."""
        self.clear()
        self.type(text + "\n")
        self.expect(answer)
        self.prompt()

    def prompt(self) -> None:
        """Wait for an empty prompt in the last line."""
        begun = time.monotonic()
        while self.text.rpartition("\n")[2].rstrip() not in (">", "edit>"):
            left = PATIENCE_S - (time.monotonic() - begun)
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise AssertionError(f"no prompt came; the screen is:\n{self.text}")
            self._read()

    def end(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.02)[0]:
                self._read()
        while select.select([self._master], [], [], 0)[0] and self._read():
            pass
        return self.process.wait(timeout=1)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read(self) -> int:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nobody has the other end any more
            return 0
        self.raw += data
        self._stream.feed(data)
        return len(data)
