"""Chats as files: Markdown to read, JSON to keep or take elsewhere.

The JSON holds the whole tree of messages; its `format` and `version` say whose it is, and `importer` reads it back.
Markdown holds one path, without the thinking unless that is asked for.
"""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from app.chat.conversation import Message, Session
from app.chat.text import fenced, well_formed

FORMAT, VERSION = "qchat-chats", 1
LONGEST_NAME = 200  # bytes of UTF-8 without the suffix; file systems take 255

Chat = tuple[Session, Sequence[Message]]

_ENDS: Mapping[str, str] = {
    "length": "cut off at the token limit",
    "cancelled": "stopped before its end",
    "error": "ended by an error",
    "interrupted": "interrupted: the program ended before the reply did",
    "streaming": "still being written",
}
_ROLES: Mapping[str, str] = {"user": "You", "assistant": "Reply"}
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)  # names that Windows keeps to itself
_UNSAFE_IN_NAMES = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]+')


def to_markdown(session: Session, path: Sequence[Message], thinking: bool = False) -> str:
    """One path of a chat: the title and every message under a heading; a message's own Markdown is left as it is."""
    parts = [f"# {_one_line(session.title) or 'Untitled chat'}"]
    for message in path:
        model = f" ({_one_line(message.model)})" if message.role == "assistant" and message.model else ""
        parts.append(f"## {_ROLES[message.role]}{model}")
        if thinking and message.thinking:
            parts.append(f"<details><summary>Thinking</summary>\n\n{fenced(message.thinking, 'text')}\n\n</details>")
        if message.content:
            parts.append(_with_closed_fence(message.content.rstrip()))
        parts += [fenced(call.raw, "json") for call in message.tool_calls]
        notes = [_ENDS[message.state]] if message.state in _ENDS else []
        parts += [f"*[{_one_line(note)}]*" for note in (*notes, *message.notices)]
    return "\n\n".join(parts) + "\n"


def to_json(chats: Sequence[Chat], partial: bool = False) -> str:
    """Whole chats. `partial`: messages that belong into a chat which may be on this machine already."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "partial": partial,
        "chats": [asdict(session) | {"messages": [asdict(m) for m in messages]} for session, messages in chats],
    }
    return well_formed(json.dumps(document, ensure_ascii=False, indent=1)) + "\n"


def write_unsaved(folder: Path, chats: Sequence[Chat]) -> Path:
    """Write what could not be saved to a new file of this user alone in `folder`; returns its path. Raises OSError."""
    stem = f"unsaved-{time.strftime('%Y%m%d-%H%M%S')}"
    return write_new(folder, stem, ".json", to_json(chats, partial=True))


def write_new(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """Write `text` to a new file of this user alone, numbered where the name is taken; returns its path."""
    count = 1
    while True:
        path = folder / (f"{stem}{suffix}" if count == 1 else f"{stem}-{count}{suffix}")
        try:
            write_private(path, text)
        except FileExistsError:
            count += 1
        else:
            return path


def write_private(path: Path, text: str, overwrite: bool = False) -> None:
    """Write `text` for this user alone. FileExistsError if the file is there and is not to be overwritten."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def safe_file_name(title: str, suffix: str) -> str:
    """A name for a file that holds the chat: one step of a path on every system, at most 255 bytes, never hidden."""
    text = unicodedata.normalize("NFC", well_formed(title))
    text = "".join(c if c.isprintable() else " " for c in _UNSAFE_IN_NAMES.sub(" ", text))
    stem = " ".join(text.split()).strip(" .-")
    stem = stem.encode()[:LONGEST_NAME].decode("utf-8", "ignore").strip(" .-")
    if not stem or _DEVICE.fullmatch(stem):
        stem = f"chat {stem}".rstrip()
    return stem + suffix


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _with_closed_fence(markdown: str) -> str:
    """`markdown` with the block of code closed in which it was cut off, so that it does not swallow what follows."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only blocks of code need a parser

    if "```" not in markdown and "~~~" not in markdown:
        return markdown
    last = MarkdownIt().parse(f"{markdown}\n\n# what follows")[-1]
    return f"{markdown}\n{last.markup}" if last.type == "fence" else markdown
