"""`qchat` without a command: the app, where there is a terminal that can show it.

Everything is checked before the app is imported, so that a refusal is quick and sends nothing to the terminal.
"""

from __future__ import annotations

import gc
import os
import sys

from app.errors import UsageError

ESCAPE_MS = 25  # how long a lone escape waits for what would make it another key

_ELSEWHERE = "'qchat ask' answers one question in a script or pipe; 'qchat repl' is a chat without full screen"


def start_app(model: str | None, session: str | None, resume_last: bool) -> int:
    """Run the app and return its exit code; an empty `model` begins in the picker. UsageError without a terminal."""
    if session is not None and resume_last:
        raise UsageError("--session and --continue each name a chat: give one of them")
    streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            raise UsageError(f"the app needs a terminal, but {name} is not one", _ELSEWHERE)
    term = os.environ.get("TERM", "")
    if os.name == "posix" and term in ("", "dumb", "unknown"):
        what = f"TERM={term}" if term else "an unset TERM"
        raise UsageError(f"the app cannot be shown on a terminal with {what}", _ELSEWHERE)
    gc.disable()  # until the first picture: nothing that is imported is garbage
    os.environ.setdefault("ESCDELAY", str(ESCAPE_MS))  # Textual reads it when it is imported
    from app.cli.log import keep_log  # noqa: PLC0415 - as the next line
    from app.ui.app import run_app  # noqa: PLC0415 - half a second, when it is certain that it can be shown

    keep_log()
    return run_app(
        model=model or None,
        pick_model=model == "",
        session=None if session == "new" else session,
        resume_last=resume_last,
    )
