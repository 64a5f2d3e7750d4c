"""The app as a program on a terminal of its own, for measurements from outside: start it, type, watch, weigh it.

Run as a script it is that program: the real app with a backend that sends a prepared reply at a steady pace.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PIECE = 4  # characters, about a token of English


class AppInTerminal:
    """A child process on a pseudo terminal. `output` is everything that it has written so far."""

    def __init__(self, command: Sequence[str], home: Path, columns: int = 110, rows: int = 32) -> None:
        environment = os.environ | {"QCHAT_HOME": str(home), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        # as installed: compiled once, not at each start
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(home / "bytecode")
        self.started = time.monotonic()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.output = bytearray()

    def read(self, seconds: float) -> bytes:
        """What it writes within `seconds`; returns as soon as something came."""
        ready, _, _ = select.select([self._terminal], [], [], max(seconds, 0))
        if not ready:
            return b""
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # it has ended
            return b""
        self.output += data
        return data

    def wait_for(self, text: str, seconds: float = 60.0) -> float:
        """Seconds until `text` is written, from now; raises TimeoutError."""
        begun, wanted, seen = time.monotonic(), text.encode(), len(self.output)
        while wanted not in self.output[max(seen - len(wanted), 0) :]:
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{text!r} never came; the end of the output: {bytes(self.output[-2000:])!r}")
            self.read(0.5)
        return time.monotonic() - begun

    def watch(self, seconds: float) -> int:
        """Read for `seconds`; the number of bytes that came."""
        end, before = time.monotonic() + seconds, len(self.output)
        while (left := end - time.monotonic()) > 0:
            self.read(left)
        return len(self.output) - before

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def send(self, text: str) -> None:
        """Type a message, and Enter as a person does, a moment later."""
        self.type(text)
        self.watch(0.3)
        self.type("\r")

    def cpu_s(self) -> float:
        """Processor seconds that it has used, all threads, children not included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Resident megabytes (10**6 bytes)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


class PacedBackend:
    """Sends `text` at `rate` pieces a second, by the clock: a late piece is followed at once by the next."""

    name = "paced"
    model = "paced"

    def __init__(self, text: str, rate: float) -> None:
        self.facts: dict[str, Any] = {"ctx": 40960}
        self._text = text
        self._rate = rate

    async def models(self) -> Sequence[str]:
        return [self.model]

    async def chat(self, request: Any) -> AsyncGenerator[Any, None]:
        from app.backends.base import Answer, Done, Generated
        from app.backends.usage import Usage

        begun = time.monotonic()
        pieces = range(0, len(self._text), PIECE)
        for number, at in enumerate(pieces):
            await asyncio.sleep(max(begun + number / self._rate - time.monotonic(), 0))
            yield Generated(number + 1)
            yield Answer(self._text[at : at + PIECE])
        yield Done("stop", Usage(prompt_tokens=10, generated_tokens=len(pieces), decode_s=time.monotonic() - begun))

    async def prompt(self, request: Any) -> Sequence[Any]:
        return []

    async def close(self) -> None:
        pass


def run_paced(text_file: str, rate: str, session: str = "") -> None:
    """The real app on a PacedBackend."""
    from app.chat.host import BackendHost
    from app.settings import load_settings
    from app.ui.app import QChatApp

    text = Path(text_file).read_text(encoding="utf-8")
    host = BackendHost(lambda settings, report: PacedBackend(text, float(rate)))
    QChatApp(load_settings(), session=session or None, host=host).run()


if __name__ == "__main__":
    run_paced(*sys.argv[1:])
