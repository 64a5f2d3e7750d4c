"""Which theme is taken: the person's, or the terminal's own colours where it has few of them or none are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.theme import BUILTIN_THEMES

from app.errors import SettingsError
from app.settings import load_settings
from app.ui.themes import DARK, LIGHT, theme_named
from tests.home import qchat_home

__all__ = ["qchat_home"]

KNOWN = {**BUILTIN_THEMES, DARK.name: DARK, LIGHT.name: LIGHT}
OWN_COLOURS = "ansi-dark"


@pytest.fixture(autouse=True)
def colours_are_wanted(qchat_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize(
    ("color_system", "theme"),
    [("truecolor", "dark"), ("256", "dark"), ("windows", "dark"), ("standard", OWN_COLOURS), (None, OWN_COLOURS)],
)
def test_the_default_goes_by_the_terminal(color_system: str | None, theme: str) -> None:
    assert theme_named(load_settings(), KNOWN, color_system) == theme


@pytest.mark.parametrize(("chosen", "theme"), [("light", "light"), ("nord", "nord"), ("ansi", OWN_COLOURS)])
def test_a_chosen_theme_is_taken_on_every_terminal(monkeypatch: pytest.MonkeyPatch, chosen: str, theme: str) -> None:
    monkeypatch.setenv("QCHAT_THEME", chosen)
    for color_system in ("truecolor", "256", "standard"):
        assert theme_named(load_settings(), KNOWN, color_system) == theme


def test_no_color_comes_before_a_chosen_theme_and_an_empty_one_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_THEME", "light")
    monkeypatch.setenv("NO_COLOR", "1")
    assert theme_named(load_settings(), KNOWN, "truecolor") == OWN_COLOURS
    monkeypatch.setenv("NO_COLOR", "")
    assert theme_named(load_settings(), KNOWN, "truecolor") == "light"


def test_an_unknown_theme_is_refused_with_its_place_and_the_names(qchat_home: Path) -> None:
    qchat_home.mkdir()
    config = qchat_home / "config.toml"
    config.write_text('theme = "drak"\n', "utf-8")
    with pytest.raises(SettingsError) as refused:
        theme_named(load_settings(), KNOWN, "truecolor")
    assert refused.value.message == f"{config}: no theme is called drak"
    assert refused.value.hint is not None and "ansi" in refused.value.hint and "light" in refused.value.hint
