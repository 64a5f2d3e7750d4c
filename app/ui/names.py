"""Names as people read them."""

from __future__ import annotations

from pathlib import PurePath


def shown_model(name: str) -> str:
    """A model's name for a person: of a path, the file's."""
    return PurePath(name).stem if name.endswith(".gguf") else name


def shown_key(key: str) -> str:
    """One of Textual's names of keys, as it is written on keyboards."""
    return {"pageup": "page up", "pagedown": "page down", "escape": "esc"}.get(key, key)
