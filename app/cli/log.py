"""The log file: tracebacks of failed commands, so that the terminal can show one line, and what the backends log."""

from __future__ import annotations

import logging
import os
import time
import traceback
from pathlib import Path

from app.errors import QChatError
from app.settings import paths, private_dir

MAX_BYTES = 1_000_000


def record_traceback(error: BaseException) -> Path | None:
    """Append the traceback of `error` to qchat.log and return its path, or None if the log cannot be written.

    The log is for this user alone (0600). At `MAX_BYTES` it is set aside as qchat.log.1, replacing an older one.
    """
    return _append("".join(traceback.format_exception(error)))


def keep_log() -> None:
    """From now on what the backends log goes to qchat.log: warnings, and with QCHAT_DEBUG=1 all of it."""
    logger = logging.getLogger("app.backends")
    if not logger.handlers:
        logger.addHandler(_LogFile())
    logger.setLevel(logging.DEBUG if os.environ.get("QCHAT_DEBUG") == "1" else logging.WARNING)


class _LogFile(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _append(f"{record.levelname} {record.getMessage()}\n")


def _append(text: str) -> Path | None:
    log = paths().log_dir / "qchat.log"
    try:
        private_dir(log.parent)
        if log.exists() and log.stat().st_size > MAX_BYTES:
            log.replace(log.with_name("qchat.log.1"))
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(time.strftime("%Y-%m-%d %H:%M:%S ") + text)
    except (OSError, QChatError):
        return None
    return log
