"""Keeps what others write to stderr off the screen while the app draws on it.

Libraries, the compiler of the kernels and native code write to file descriptor 2 without asking. While the app runs,
that goes to the log file; the app itself draws through a copy of the terminal that is made first.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from app.settings import private_dir

FILE_NAME = "stderr.log"
MAX_BYTES = 1_000_000


@contextlib.contextmanager
def stderr_to_log(folder: Path) -> Iterator[None]:
    """Send descriptor 2 to a log in `folder`; `sys.__stderr__`, where Textual draws, stays the terminal.

    Several windows append to one log; it begins anew when it has grown beyond MAX_BYTES.
    """
    terminal = os.dup(2)
    path = private_dir(folder) / FILE_NAME
    anew = os.O_TRUNC if path.exists() and path.stat().st_size > MAX_BYTES else 0
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | anew, 0o600)
    before = sys.__stderr__, sys.stderr
    os.dup2(log, 2)
    os.close(log)
    drawing = os.fdopen(terminal, "w", encoding="utf-8", errors="replace", closefd=False)
    sys.__stderr__ = drawing  # type: ignore[misc]  # Final in the stubs; Textual's driver draws on it
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            drawing.flush()
        sys.__stderr__, sys.stderr = before  # type: ignore[misc]
        os.dup2(terminal, 2)
        os.close(terminal)
