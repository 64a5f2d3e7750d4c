"""The prompt of `ask`: its argument, and what comes through standard input.

Standard input is read to its end whenever it is not a terminal, so that `make 2>&1 | qchat ask "explain"` waits for a
slow command and never answers without the text. Where nothing ends it (a pipe inherited from a service or an editor),
a line on stderr says after two seconds what is being waited for and how to go on without it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from app.errors import UsageError

HINT_AFTER_S = 2.0
WAITING = "waiting for the end of standard input; --no-stdin (or </dev/null) answers without it"


def read_prompt(argument: str | None, use_stdin: bool, say: Callable[[str], None]) -> str:
    """The prompt: the argument, an empty line, then standard input; "-" or no argument is standard input alone.

    Raises UsageError if there is nothing to answer.
    """
    prompt = "" if argument in (None, "-") else _utf8(argument)
    piped = ""
    if use_stdin and sys.stdin is not None and (argument == "-" or not sys.stdin.isatty()):
        piped = read_to_end(sys.stdin.buffer, say, HINT_AFTER_S)
    parts = [part for part in (prompt, piped.rstrip("\r\n")) if part.strip()]
    if not parts:
        raise UsageError("the prompt is empty", 'give one: qchat ask "your question", or pipe text into it')
    return "\n\n".join(parts)


def read_to_end(stream: BinaryIO, say: Callable[[str], None], hint_after_s: float) -> str:
    """All of `stream` as UTF-8. Says that it waits if that takes longer than `hint_after_s`, and what it replaced."""
    hint = threading.Timer(hint_after_s, say, [WAITING])
    hint.daemon = True
    hint.start()
    try:
        data = stream.read()
    finally:
        hint.cancel()
    text = data.decode("utf-8-sig", errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in data:
        say("standard input is not all UTF-8; what is not became U+FFFD")
    return text


def _utf8(argument: str) -> str:
    """A command-line argument with bytes that were not UTF-8 replaced, as in standard input."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
