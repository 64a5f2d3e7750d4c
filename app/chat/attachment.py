"""A text file as part of a message: its name and its text in a fence that nothing in it can close."""

from __future__ import annotations

import re
from pathlib import Path

from app.chat.text import well_formed
from app.errors import UsageError, printable

LARGEST = 4_000_000  # bytes; more than any context holds


def attachment(file: str) -> str:
    """The text of `file` for a message. Raises UsageError for what is no readable text of at most LARGEST bytes."""
    path = Path(file.strip().strip("'\"")).expanduser()
    shown = printable(str(path), 200)
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(
                f"{shown} holds {size:,} bytes; at most {LARGEST:,} can be attached", "attach a part of it"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}", "check the path") from error
    except UnicodeDecodeError:
        raise UsageError(f"{shown} is not a text file in UTF-8", "only text can be attached") from None
    if "\0" in text:
        raise UsageError(f"{shown} is not a text file", "only text can be attached")
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return well_formed(f"{path.name}:\n{fence}{path.suffix[1:]}\n{text.rstrip()}\n{fence}\n")
