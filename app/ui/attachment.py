"""A text file as part of a message: a fenced block that begins with the file's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.chat.text import fenced
from app.cli.progress import human_bytes
from app.errors import UsageError, printable

MOST_BYTES = 4_000_000  # beyond every context window


@dataclass(frozen=True)
class Attachment:
    """`block` goes into the message; `said` tells a person what was read."""

    block: str
    said: str


def read_attachment(name: str) -> Attachment:
    """The file `name`; UsageError if it is no text, too large or cannot be read. Nothing of it is left out."""
    path = Path(name.strip("'\"")).expanduser()
    shown = printable(str(path), 200)
    try:
        if path.is_dir():
            raise UsageError(f"{shown} is a folder", "attach its files one by one")
        if path.exists() and not path.is_file():
            raise UsageError(f"{shown} is no regular file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UsageError(f"{shown} is too large: {human_bytes(size)}, and no more than {human_bytes(MOST_BYTES)}")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {shown}: {getattr(error, 'strerror', None) or error}") from error
    if b"\0" in data:
        raise UsageError(f"{shown} is no text file ({human_bytes(len(data))})")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{shown} is no text in UTF-8 ({human_bytes(len(data))})") from None
    text = text.replace("\r\n", "\n").rstrip("\n")
    lines = text.count("\n") + 1 if text else 0
    said = f"{printable(path.name)}: {human_bytes(len(data))}, {lines:,} line{'' if lines == 1 else 's'}"
    kind = path.suffix[1:] if path.suffix[1:].isalnum() else ""
    return Attachment(f"{printable(path.name)}:\n{fenced(text, kind)}", said)
