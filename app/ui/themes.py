"""qchat's two themes, and the names that a person gives to them and to Textual's."""

from __future__ import annotations

import os
from collections.abc import Collection

from textual.theme import Theme

from app.errors import SettingsError, printable
from app.settings import Settings

DARK = Theme(
    name="dark",
    primary="#7aa2c8",
    secondary="#b39ac2",
    accent="#e0a458",
    warning="#d9b44a",
    error="#d9716a",
    success="#8fb573",
    foreground="#d8d8d2",
    background="#16181c",
    surface="#1d2025",
    panel="#2a2e35",
    dark=True,
    variables={
        "border": "#5b7a96",
        "border-blurred": "#343941",
        "footer-key-foreground": "#e0a458",
        "scrollbar": "#343941",
        "scrollbar-background": "#16181c",
        "scrollbar-corner-color": "#16181c",
    },
)
LIGHT = Theme(
    name="light",
    primary="#2c5f8a",
    secondary="#7a4f8a",
    accent="#a85d00",
    warning="#8a6500",
    error="#b3352c",
    success="#3f7a2a",
    foreground="#25282c",
    background="#fbfaf7",
    surface="#f2f0ea",
    panel="#e2dfd6",
    dark=False,
    variables={
        "border": "#7f9cb5",
        "border-blurred": "#cfcabd",
        "footer-key-foreground": "#a85d00",
        "scrollbar": "#cfcabd",
        "scrollbar-background": "#fbfaf7",
        "scrollbar-corner-color": "#fbfaf7",
    },
)


def no_color_wanted() -> bool:
    """Whether the person asked every program for no colours (https://no-color.org); an empty NO_COLOR means nothing."""
    return bool(os.environ.get("NO_COLOR"))


def theme_named(settings: Settings, known: Collection[str], color_system: str | None) -> str:
    """The name of a registered theme for `theme` in the settings. Raises SettingsError.

    `color_system` is rich's name for what the terminal can show. Where that is 16 colours and nobody has chosen a
    theme, it is the one that uses the terminal's own: a shade among 16 is not what it was meant to be.
    """
    name = {"ansi": "ansi-dark"}.get(settings.theme, settings.theme)
    if name not in known:
        where = printable(settings.sources["theme"], 300)
        raise SettingsError(
            f"{where}: no theme is called {printable(settings.theme)}", f"there are: ansi, {', '.join(sorted(known))}"
        )
    few_colors = color_system not in ("256", "truecolor", "windows")
    if no_color_wanted() or (few_colors and settings.sources["theme"] == "default"):
        return "ansi-dark"
    return name
