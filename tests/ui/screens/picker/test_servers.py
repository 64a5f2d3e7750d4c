"""The servers in the model picker: there at once, asked beside it, chosen like any other model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.hub.choices import Choice
from app.hub.library import Library
from app.settings import Settings
from tests.backends.ollama.server import FakeOllama, Model, serving
from tests.gguf_files import write_model
from tests.ui.screens.picker.app import PickerApp, in_loop, open_picker, until


@pytest.fixture
def fake(library: Library, qchat_home: Path) -> Iterator[FakeOllama]:
    """A server called work, whose own model is b, beside one that is not there and a model of this disk."""
    write_model(library.models_dir / "apple.gguf")
    with serving(FakeOllama(models=[Model("a"), Model("b"), Model("org/c \x1b[2J")])) as fake:
        (qchat_home / "config.toml").write_text(
            f'[servers.work]\nkind = "ollama"\nurl = "{fake.url}"\nmodel = "b"\n'
            '[servers.gone]\nkind = "ollama"\nurl = "http://127.0.0.1:9"\n'
        )
        yield fake


def told(app: PickerApp) -> bool:
    return all(words in "".join(app.rows) for words in ("work/a", "cannot be reached"))


@in_loop
async def test_the_models_of_every_server_are_rows_beside_those_of_this_disk(fake: FakeOllama) -> None:
    async with open_picker(size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: told(app))
        rows = app.rows[app.rows.index(next(row for row in app.rows if row.strip() == "Servers")) + 1 :]
        assert [row.split()[0] for row in rows] == ["work/b", "work/a", "work/org/c", "gone/"]
        assert fake.url in rows[0] and rows[-1].split(maxsplit=1)[1].startswith("cannot be reached at ")
        assert app.cursor == "apple"
        assert "\x1b" not in app.shown and r"c \x1b[2J" in app.shown
        for _ in range(len(app.rows)):
            await pilot.press("down")
            if app.cursor == "work/a":
                break
        assert "what you write goes there" in app.shown and "Enter chooses it" in app.shown
        await pilot.press("enter")
        assert app.chosen == "work/a"


@in_loop
async def test_a_server_that_is_not_there_is_not_taken(fake: FakeOllama) -> None:
    async with open_picker(size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: told(app))
        await pilot.press(*"gone")
        await until(pilot, lambda: app.cursor == "gone/")
        await pilot.press("enter")
        assert app.picker.is_current and "Enter" not in app.shown


@in_loop
async def test_nobody_waits_for_a_server(fake: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is there before any answer; a server's own model can be chosen already, and leaving works."""
    asked: list[Callable[[str, list[Choice]], Any]] = []

    def silent(settings: Settings, report: Callable[[str, list[Choice]], Any]) -> None:
        assert list(settings.servers) == ["work", "gone"]
        asked.append(report)

    monkeypatch.setattr("app.ui.screens.picker.view.ask_servers", silent)
    async with open_picker(size=(120, 40)) as (app, pilot):
        assert any("work/b" in row and "asking ..." in row for row in app.rows)
        await pilot.press(*"work/")
        await until(pilot, lambda: app.cursor == "work/b")
        await pilot.press("enter")
        assert app.chosen == "work/b"
    asked[0]("work", [])  # an answer that comes when all is over harms nobody


@in_loop
async def test_the_cursor_goes_to_the_model_in_use_and_stays_where_a_person_moved_it(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_picker(size=(120, 40), in_use="work/a") as (app, pilot):
        await until(pilot, lambda: told(app))
        assert app.cursor == "work/a" and any("work/a" in row and "in use" in row for row in app.rows)
    reports: list[Callable[[str, list[Choice]], Any]] = []
    monkeypatch.setattr("app.ui.screens.picker.view.ask_servers", lambda _settings, report: reports.append(report))
    async with open_picker(size=(120, 40), in_use="work/a") as (app, pilot):
        await pilot.press("down")
        at = app.cursor
        reports[0]("work", [Choice("server", "work/a"), Choice("server", "work/b")])
        await until(pilot, lambda: any("work/a" in row for row in app.rows))
        assert app.cursor == at


@in_loop
async def test_a_model_of_this_disk_is_named_as_such_where_a_server_is_in_use(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_BACKEND", "work")
    async with open_picker(size=(120, 40)) as (app, pilot):
        await pilot.press(*"apple")
        await until(pilot, lambda: app.cursor == "apple")
        await pilot.press("enter")
        assert app.chosen == "local/apple"
