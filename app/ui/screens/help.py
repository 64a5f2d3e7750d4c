"""Keys and commands, as the registry of actions and this person's keymap have them."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from app.ui.actions import ACTIONS, Action
from app.ui.screens.dialog import ShowText

_PLACES = {
    "anywhere": "Everywhere",
    "composer": "In the message that you write",
    "message": "On a selected message (alt+up, alt+down)",
    "chats": "In the list of chats",
}


def help_screen(keymap: Mapping[str, str]) -> ShowText:
    """The help as a screen. `keymap` has the keys of every action."""
    parts = []
    for where, title in _PLACES.items():
        lines = [Content.styled(title, "bold")]
        lines += [_line(action, keymap[action.id]) for action in ACTIONS if action.where == where]
        parts.append(Content("\n").join(lines))
    parts.append(
        Content(
            "Only these are commands; any other text that begins with a slash is a message, and a space before\n"
            "the slash makes a message of anything. Keys are changed in the [keys] table of config.toml by the\n"
            "name on the right."
        )
    )
    return ShowText("Keys and commands", Content("\n\n").join(parts), wide=True)


def _line(action: Action, keys: str) -> Content:
    slash = f"/{action.slash} {action.argument}".rstrip() if action.slash else ""
    return Content.assemble(
        (f"{shown_keys(keys):<13} ", "$text-accent"),
        (f"{slash:<21} ", "$text-primary"),
        f"{action.help:<46} ",
        (action.id, "dim"),
    )


def shown_keys(keys: str) -> str:
    """Textual's names of keys as people write them: "ctrl+n or f5"."""
    names = {"pageup": "page up", "pagedown": "page down", "escape": "esc"}
    return " or ".join(names.get(key, key) for key in keys.split(",") if key)
