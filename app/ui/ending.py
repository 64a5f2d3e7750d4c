"""The ends of the app that no key asks for, and a terminal that comes back from being stopped.

A signal ends the app as `quit` does, so that what was said is saved and the terminal is given back. A process that was
stopped comes back to a terminal whose modes are the shell's: everything is set anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


@contextlib.contextmanager
def ending_signals(end: Callable[[int], None]) -> Iterator[None]:
    """In a running loop: `end` gets the exit code, 128 and the number of the signal, that a shell expects."""
    if os.name != "posix":
        yield
        return
    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in _ENDING]
    for number in numbers:
        loop.add_signal_handler(number, end, 128 + number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def on_continue(resume: Callable[[], None]) -> None:
    """Call `resume` on the running loop whenever the process was stopped and goes on."""
    if os.name == "posix":
        asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, resume)
