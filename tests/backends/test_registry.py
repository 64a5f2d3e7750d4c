"""Backends are entry points, loaded by name and only when asked for."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from app.backends import registry
from app.backends.base import Answer, Backend
from app.backends.local import open_local
from app.errors import BackendError, UsageError
from app.settings import ServerTable, load_settings
from tests.backends.fakes import FakeBackend

opened: list[Any] = []


def open_recorded(settings: Any, _report: Any) -> FakeBackend:
    opened.append(settings)
    return FakeBackend(Answer("yes"))


def open_badly(_settings: Any, _report: Any) -> Any:
    raise KeyError("its own \x1b[2J fault")


def open_nothing(_settings: Any, _report: Any) -> str:
    return "no backend"


def open_refusing(_settings: Any, _report: Any) -> Any:
    raise UsageError("not today")


not_callable = 5


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in {
            "mine": f"{__name__}:open_recorded",
            "broken": "no_such_module:f",
            "no-f": f"{__name__}:f",
            "exits": "tests.backends.exits:f",
            "no-function": f"{__name__}:not_callable",
            "badly": f"{__name__}:open_badly",
            "nothing": f"{__name__}:open_nothing",
            "refusing": f"{__name__}:open_refusing",
        }.items()
    )
    monkeypatch.setattr("importlib.metadata.entry_points", points.select)


def opening(name: str, **servers: ServerTable) -> Backend:
    return registry.open_backend(replace(load_settings(), backend=name, servers=servers), lambda _: None)


@pytest.mark.usefixtures("installed")
def test_a_plugin_is_opened_by_name_and_the_others_are_not_loaded() -> None:
    assert registry.backend_names()[:3] == ["badly", "broken", "exits"]
    backend = opening("mine")
    assert (backend.name, backend.model) == ("mine", "fake:1b")
    assert opened[-1].backend == "mine"


@pytest.mark.usefixtures("installed")
def test_a_server_is_opened_by_the_backend_of_its_kind() -> None:
    work = ServerTable("work", kind="mine", url="http://h")
    assert opening("work", work=work).name == "mine"
    assert opened[-1].servers[opened[-1].backend] == work
    # Its name may be that of a backend, too: then the table decides.
    assert opening("refusing", refusing=ServerTable("refusing", kind="mine")).name == "mine"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["broken", "no-f", "exits", "no-function"])
def test_a_plugin_that_cannot_be_loaded_is_named_with_where_it_comes_from(name: str) -> None:
    with pytest.raises(BackendError, match=name) as caught:
        opening(name)
    assert "it comes from " in str(caught.value.hint) and ":" in str(caught.value.hint)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"), [("badly", "failed: KeyError: .its own"), ("nothing", "opened no backend: it has no")]
)
def test_a_plugin_that_fails_to_open_is_named(name: str, said: str) -> None:
    with pytest.raises(BackendError, match=name) as caught:
        opening(name)
    assert said in caught.value.message.replace("'", ".") and caught.value.message.isprintable()


@pytest.mark.usefixtures("installed")
def test_what_a_plugin_says_on_purpose_is_said() -> None:
    with pytest.raises(UsageError, match="not today"):
        opening("refusing")


@pytest.mark.usefixtures("installed")
def test_an_unknown_name_is_a_usage_error_that_helps() -> None:
    work = ServerTable("work", kind="mien")
    for name, said in {
        "zzz": "installed: badly, broken, exits, mine, no-f, no-function, nothing, refusing; servers: work",
        "wrok": "did you mean work?",
        "brokn": "did you mean broken?",
        "work": "installed: badly, broken",
    }.items():
        with pytest.raises(UsageError, match=name) as caught:
            opening(name, work=work)
        assert said in str(caught.value.hint)


def test_the_package_declares_its_own_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = EntryPoint("local", project["entry-points"][registry.GROUP]["local"], registry.GROUP)
    assert declared.load() is open_local
