"""The keys of the app: those of the registry of actions, changed by the `[keys]` table of config.toml.

A name that is no action, or a key that Textual has no name for, is an error that says where it stands: a binding that
silently does nothing is found only when it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from textual.binding import Binding, BindingType
from textual.keys import Keys

from app.errors import SettingsError, printable
from app.settings import KEYS, Settings
from app.ui.actions import ACTIONS

# Text areas have these keys themselves, and the action comes first.
_PRIORITY = frozenset({"chat_page_up", "chat_page_down", "first_message", "last_message", "palette", "quit"})
_NAMED = frozenset(key.value for key in Keys)
UNBOUND = "unbound"  # in place of a key, for Textual, which has no word for an action without one
_KEY = re.compile(r"(?:(?:ctrl|alt|shift|super|hyper|meta)\+)*(.+)")


def bindings(where: str) -> list[BindingType]:
    """The default bindings of the actions that are reached with the focus there; the chat screen does them all.

    Those without a key are among them, for `[keys]` to give them one.
    """
    return [
        Binding(
            a.keys or UNBOUND,
            f"screen.{a.id}",
            a.title,
            show=a.footer,
            priority=a.id in _PRIORITY,
            tooltip=a.help,
            id=a.id,
        )
        for a in ACTIONS
        if a.where == where
    ]


def for_textual(keymap: Mapping[str, str]) -> Mapping[str, str]:
    """`keymap` as Textual takes it: there an empty text would leave the default."""
    return {action_id: keys or UNBOUND for action_id, keys in keymap.items()}


def read_keymap(settings: Settings) -> Mapping[str, str]:
    """The keys of every action, comma-separated in Textual's names; "" for none. Raises SettingsError."""
    keymap = {action.id: action.keys for action in ACTIONS}
    for action_id, text in settings.keys.items():
        where = f"{printable(settings.sources[KEYS + action_id], 300)}: {KEYS}{printable(action_id)}"
        if action_id not in keymap:
            raise SettingsError(f"{where}: no action has that name", "F1 in qchat lists the actions and their names")
        names = [name.strip() for name in text.split(",") if name.strip()]
        if wrong := [name for name in names if not _is_key(name)]:
            raise SettingsError(
                f"{where}: {printable(wrong[0])} is not a key", 'keys are written as "ctrl+n", "f5", "alt+left", "x"'
            )
        keymap[action_id] = ",".join(names)
    return keymap


def _is_key(name: str) -> bool:
    match = _KEY.fullmatch(name)
    base = match[1] if match else ""
    return len(base) == 1 or base in _NAMED or name in _NAMED
