"""What may be written to a terminal, and in which encoding: the same rule for every command.

Text that comes from a model, a file or a server can hold escape sequences that clear the screen, write the clipboard
or move the cursor. Whatever goes to a terminal passes through `escape_controls` first.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

import click

# C0 without tab and newline, DEL and C1, bidi embeddings, overrides and isolates, line separators, lone surrogates.
# Joiners and variation selectors are left alone: Persian text and emoji need them.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """`text` with everything that could drive a terminal shown as an escape; works on any piece of a stream."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def prepare_streams() -> None:
    """UTF-8 for files and pipes whatever the locale says; a terminal keeps its encoding, with `?` where that fails."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None or not hasattr(stream, "reconfigure"):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="replace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether `stream` can be drawn on: a terminal that understands control codes. Windows sets no TERM."""
    if stream is None or not stream.isatty():
        return False
    term = os.environ.get("TERM", "")
    return term not in ("dumb", "unknown") and (term != "" or os.name != "posix")


def write_json(document: Any) -> None:
    """One JSON document and a newline on stdout: readable, valid UTF-8, and safe to look at in a terminal."""
    import json  # noqa: PLC0415 - --help does without

    text = json.dumps(document, ensure_ascii=False, indent=2)
    click.echo(_UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
