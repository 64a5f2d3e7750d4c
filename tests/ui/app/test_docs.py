"""The user's page of the app and its pictures are those of this app."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from app.ui.actions import ACTIONS

DOCS = Path(__file__).parents[3] / "docs"


def test_the_table_of_keys_is_the_registry_of_actions() -> None:
    page = (DOCS / "app.md").read_text()
    assert runpy.run_path(str(DOCS / "keys.py"))["with_keys"](page) == page
    assert page.count("\n| ") >= len(ACTIONS)


@pytest.mark.parametrize("name", ["chat", "thinking", "models", "search", "light"])
def test_a_picture_in_the_documentation_is_what_the_app_looks_like(name: str) -> None:
    """If it is not: python docs/screenshots.py, and look at it."""
    picture = runpy.run_path(str(DOCS / "screenshots.py"))["picture"]
    assert picture(name) == (DOCS / "screenshots" / f"{name}.svg").read_text()
