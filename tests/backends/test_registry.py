"""Backends are entry points, loaded by name and only when asked for."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from app.backends import registry
from app.backends.local import open_local
from app.errors import BackendError, UsageError
from app.settings import load_settings

opened: list[Any] = []


def open_recorded(settings: Any, _report: Any) -> str:
    opened.append(settings)
    return "a backend"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in {
            "mine": f"{__name__}:open_recorded",
            "broken": "no_such_module:f",
            "no-f": f"{__name__}:f",
        }.items()
    )
    monkeypatch.setattr("importlib.metadata.entry_points", points.select)


@pytest.mark.usefixtures("installed")
def test_a_plugin_is_opened_by_name_and_the_others_are_not_loaded() -> None:
    settings = replace(load_settings(), backend="mine")
    assert registry.backend_names() == ["broken", "mine", "no-f"]
    assert registry.open_backend(settings, lambda _: None) == "a backend"
    assert opened == [settings]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["broken", "no-f"])
def test_a_plugin_that_cannot_be_loaded_is_named_with_where_it_comes_from(name: str) -> None:
    with pytest.raises(BackendError, match=name) as caught:
        registry.open_backend(replace(load_settings(), backend=name), lambda _: None)
    assert ":f" in str(caught.value.hint)


@pytest.mark.usefixtures("installed")
def test_an_unknown_backend_is_a_usage_error_that_lists_what_is_there() -> None:
    with pytest.raises(UsageError, match="nosuch") as caught:
        registry.open_backend(replace(load_settings(), backend="nosuch"), lambda _: None)
    assert "broken, mine, no-f" in str(caught.value.hint)


def test_the_package_declares_its_own_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = EntryPoint("local", project["entry-points"][registry.GROUP]["local"], registry.GROUP)
    assert declared.load() is open_local
