"""Writes the table of keys at the end of docs/app.md: python docs/keys.py

It comes from the registry of actions, and a test sees that it is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.ui.actions import ACTIONS, Action  # noqa: E402
from app.ui.screens.help import shown_keys  # noqa: E402

PAGE = ROOT / "docs" / "app.md"
MARK = "<!-- written by `python docs/keys.py`, checked by a test -->\n"


def with_keys(page: str) -> str:
    """The page with everything after MARK written anew."""
    head = "| key | where | command | what it does | name |\n|---|---|---|---|---|\n"
    return page.partition(MARK)[0] + MARK + head + "".join(map(_row, ACTIONS))


def _row(action: Action) -> str:
    slash = f"`/{action.slash} {action.argument}`".replace(" `", "`").replace("|", "\\|") if action.slash else ""
    where = {"anywhere": "", "composer": "writing", "message": "a selected message", "chats": "the list of chats"}
    cells = (shown_keys(action.keys), where[action.where], slash, action.help, f"`{action.id}`")
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"


if __name__ == "__main__":
    PAGE.write_text(with_keys(PAGE.read_text()))
