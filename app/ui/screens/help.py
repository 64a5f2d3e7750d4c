"""Keys and commands, as the registry of actions and this person's keymap have them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from textual.content import Content

from app.ui.actions import ACTIONS, Action
from app.ui.names import shown_key
from app.ui.screens.dialog import ShowText

GAP = 2  # cells between columns
LEAST = 24  # cells for a sentence
_ABOUT = (
    "Only these are commands; any other text that begins with a slash is a message, and a space before the slash makes "
    "a message of anything. Keys are changed in the [keys] table of config.toml, by the names in grey."
)
_PLACES = {
    "anywhere": "Everywhere",
    "composer": "In the message that you write",
    "message": "On a selected message (alt+up, alt+down)",
    "chats": "In the list of chats",
}


def help_screen(keymap: Mapping[str, str]) -> ShowText:
    """The help as a screen. `keymap` has the keys of every action."""
    return ShowText("Keys and commands", lambda width: help_text(keymap, width))


def help_text(keymap: Mapping[str, str], width: int) -> Content:
    """A table of `width` cells: keys, slash command, what it does, and the name that config.toml knows it by."""
    sections = [
        (title, [(shown_keys(keymap[a.id]), _slash(a), a) for a in ACTIONS if a.where == where])
        for where, title in _PLACES.items()
    ]
    in_columns = all(sum(_widths(rows)) <= width for _, rows in sections)
    tables = [Content.assemble((title, "bold"), "\n", _table(rows, width, in_columns)) for title, rows in sections]
    return Content("\n\n").join([*tables, Content("\n".join(textwrap.wrap(_ABOUT, width)))])


_Row = tuple[str, str, Action]


def _widths(rows: Sequence[_Row]) -> tuple[int, int, int, int]:
    """The columns in cells, each with the gap after it."""
    keys = max(len(pressed) for pressed, _, _ in rows)
    slashes = max(len(typed) for _, typed, _ in rows)
    helps = max(len(action.help) for _, _, action in rows)
    names = max(len(action.id) for _, _, action in rows)
    return keys + GAP, slashes + GAP if slashes else 0, helps + GAP, names


def _table(rows: Sequence[_Row], width: int, in_columns: bool) -> Content:
    """Where there is no room for columns, the name stands behind the sentence, and both are wrapped; where there is
    hardly any, they stand below the keys."""
    keys, slashes, helps, _ = _widths(rows)
    stacked = width - keys - slashes < LEAST
    indent = GAP if stacked else keys + slashes
    lines: list[Content] = []
    for pressed, typed, action in rows:
        first, *more = textwrap.wrap(action.help, max(width - indent, 1))
        if stacked:
            lines.append(Content.assemble((pressed, "$text-accent"), "  " if pressed else "", (typed, "$text-primary")))
            before = Content(" " * indent)
        else:
            before = Content.assemble((pressed.ljust(keys), "$text-accent"), (typed.ljust(slashes), "$text-primary"))
        lines += [before + first, *(Content(" " * indent + line) for line in more)]
        if in_columns:
            lines[-1] = lines[-1].pad_right(helps - len(first))
        elif lines[-1].cell_length + GAP + len(action.id) <= width:
            lines[-1] = lines[-1].pad_right(GAP)
        else:
            lines.append(Content(" " * indent))
        lines[-1] += Content.styled(action.id, "dim")
    return Content("\n").join(lines)


def _slash(action: Action) -> str:
    return f"/{action.slash} {action.argument}".rstrip() if action.slash else ""


def shown_keys(keys: str) -> str:
    """Textual's names of keys as people write them: "ctrl+n or f5"."""
    return " or ".join(shown_key(key) for key in keys.split(",") if key)
