"""Downloads in the model picker: one that succeeds, one that fails, and one that is no longer wanted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.widgets import Input

from app.cli.progress import human_bytes
from app.hub.download.gather import steered_pull
from app.hub.download.identity import Identity
from app.hub.download.kept import kept_parts
from app.hub.download.state import State, save
from app.hub.library import Library
from app.lock import alone
from tests.gguf_files import make_model
from tests.hub.files import Answer, Server, left_in
from tests.stopwatch import Stopwatch
from tests.ui.screens.picker.app import NOT_YET, in_loop, open_picker, until

QWEN = "/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf"


@in_loop
async def test_a_download_shows_its_progress_and_becomes_a_model_to_take(library: Library, server: Server) -> None:
    gate = threading.Event()
    body = make_model(context_length=512).to_bytes()
    server.answers[QWEN] = Answer(body, gate=gate)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        try:
            await until(pilot, lambda: " 50 %" in "".join(app.rows))
            row = next(row for row in app.rows if "qwen3:0.6b" in row)
            assert f"{human_bytes(len(body) // 2)} of {human_bytes(len(body))}" in row and "━" in row
            assert "Esc stops it" in app.shown and app.chosen == NOT_YET
        finally:
            gate.set()
        await until(pilot, lambda: "On this disk" in app.shown)
        assert app.cursor == "qwen3:0.6b" and "Enter chooses it" in app.shown
        assert sum("qwen3:0.6b" in row for row in app.rows) == 1
        await until(pilot, lambda: "fits" in app.rows[1])
        await pilot.press("enter")
        assert app.chosen == "qwen3:0.6b"
        assert library.find(app.chosen).read_bytes() == body


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
@in_loop
async def test_a_stalled_download_is_stopped_within_a_second_and_leaves_nothing(
    library: Library, server: Server, key: str
) -> None:
    gate = threading.Event()
    server.answers[QWEN] = Answer(make_model().to_bytes(), gate=gate)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        try:
            await until(pilot, lambda: " 50 %" in "".join(app.rows))
            watch = Stopwatch()
            await pilot.press(key)
            await until(pilot, lambda: "was stopped; Enter goes on with it" in app.shown)
            assert watch.seconds < 1
        finally:
            gate.set()
        assert left_in(library) == []
        assert app.cursor == "qwen3:0.6b" and app.chosen == NOT_YET
        await pilot.press("escape")
        assert app.chosen is None


@in_loop
async def test_a_download_that_fails_says_why_and_can_be_tried_again(library: Library, server: Server) -> None:
    server.answers[QWEN] = Answer(b"\x1b[2J", 403)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        await until(pilot, lambda: "failed" in "".join(app.rows))
        assert "answered 403" in app.shown and "set HF_TOKEN" in app.shown
        assert app.cursor == "qwen3:0.6b" and left_in(library) == []
        gate = threading.Event()
        server.answers[QWEN] = Answer(make_model().to_bytes(), gate=gate)
        await pilot.press("enter")
        try:
            await until(pilot, lambda: " 50 %" in "".join(app.rows))
            assert "failed" not in "".join(app.rows) and "answered" not in app.shown
        finally:
            gate.set()
        await until(pilot, lambda: "On this disk" in app.shown)


@in_loop
async def test_a_models_folder_that_cannot_be_written_is_an_error_like_others(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.hub.download.handle.steered_pull", no_room)
    async with open_picker() as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "failed" in "".join(app.rows))
        assert "No space left on device" in app.shown


@in_loop
async def test_one_download_at_a_time_and_none_is_dropped_by_a_choice(two_models: Library, server: Server) -> None:
    gate = threading.Event()
    server.answers[QWEN] = Answer(make_model().to_bytes(), gate=gate)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        try:
            await until(pilot, lambda: " 50 %" in "".join(app.rows))
            for other in ("3:4b", "pear"):
                await pilot.press("ctrl+u", *other, "enter")
                assert "qwen3:0.6b is being downloaded; Esc stops that first" in app.shown
                assert "qwen3:0.6b: downloading, 50 %" in app.shown, "the filter does not hide what goes on"
            assert app.chosen == NOT_YET
            assert not any("4B" in path for path, _ in server.requests)
            await pilot.press("escape")
            await until(pilot, lambda: app.picker._models.download is None)
        finally:
            gate.set()


@in_loop
async def test_leaving_the_app_ends_a_download(
    library: Library, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def watched(*args: object) -> object:
        try:
            return steered_pull(*args)  # type: ignore[arg-type]
        finally:
            ended.set()

    monkeypatch.setattr("app.hub.download.handle.steered_pull", watched)
    gate = threading.Event()
    server.answers[QWEN] = Answer(make_model().to_bytes(), gate=gate)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        await until(pilot, lambda: " 50 %" in "".join(app.rows))
    assert ended.wait(timeout=1)
    gate.set()
    assert left_in(library) == []


@in_loop
async def test_without_any_model_the_starter_is_offered_first(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = make_model().to_bytes()

    def arrives(name: str, library: Library, *_: object) -> object:
        assert name == "smollm2:135m"
        path = library.models_dir / "SmolLM2-135M-Instruct.Q4_1.gguf"
        path.write_bytes(body)
        return library.entry(Path(path))

    monkeypatch.setattr("app.hub.download.handle.steered_pull", arrives)
    async with open_picker() as (app, pilot):
        assert "There is no model on this disk yet" in app.shown
        assert app.cursor == "smollm2:135m"
        await pilot.press("enter")
        await until(pilot, lambda: "On this disk" in app.shown)
        assert "There is no model" not in app.shown
        await pilot.press("enter")
        assert app.chosen == "smollm2:135m"


@in_loop
async def test_the_welcome_holds_wherever_the_cursor_stands(library: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press("down")
        assert app.cursor != "smollm2:135m" and "There is no model on this disk yet" in app.shown
        said = " ".join(app.shown.split())
        assert "the starter, smollm2:135m (about" in said and "Enter fetches the model that is marked" in said
        assert "press Enter to fetch smollm2" not in said


# -- what a stopped download has left ---------------------------------------------------------------------------------


@pytest.fixture
def half(two_models: Library) -> Library:
    """One hundred kilobytes of a model of the catalogue are here."""
    part = two_models.incoming_dir / "Qwen3-0.6B-Q8_0.gguf.part"
    part.write_bytes(bytes(100_000))
    place = "http://h/Qwen3-0.6B-Q8_0.gguf"
    said = Identity(400_000, etag='"v1"')
    save(part, State("Qwen3-0.6B-Q8_0.gguf", "qwen3:0.6b", place, said, 400_000, ((0, 100_000),)))
    return two_models


@in_loop
async def test_what_is_left_is_removed_once_a_person_says_yes(half: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b")
        assert "Del removes it" in app.shown
        for no in ("n", "escape"):
            await pilot.press("delete")
            await until(pilot, lambda: "Remove this download?" in app.shown)
            assert "100 kB of 400 kB of Qwen3-0.6B-Q8_0.gguf" in app.shown
            await pilot.press(no)
            await until(pilot, lambda: app.picker.is_current)
            assert len(kept_parts(half)) == 1
        await pilot.press("delete", "y")
        await until(pilot, lambda: "are free again" in app.shown)
        assert list(half.incoming_dir.iterdir()) == [] and "Del removes it" not in app.shown
        assert app.cursor == "qwen3:0.6b" and "Not complete" not in app.shown
        assert not app.picker.check_action("remove", ())
        assert sorted(path.name for path in half.models_dir.glob("*.gguf")) == ["apple.gguf", "pear.gguf"]


@in_loop
async def test_delete_is_the_filters_wherever_that_has_something_to_delete(half: Library) -> None:
    async with open_picker() as (app, pilot):
        typed = app.picker.query_one(Input)
        await pilot.press(*"0.6b", "left", "delete")
        await until(pilot, lambda: typed.value == "0.6")
        await pilot.press("home", "shift+end", "delete")
        await until(pilot, lambda: typed.value == "")
        assert app.picker.is_current and len(kept_parts(half)) == 1


@in_loop
async def test_what_another_qchat_fetches_meanwhile_stays(half: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "delete")
        with alone(half.incoming_dir / "Qwen3-0.6B-Q8_0.gguf.lock", lambda: None):
            await pilot.press("y")
            await until(pilot, lambda: "stays" in app.shown)
            assert len(kept_parts(half)) == 1 and "another qchat is fetching it" in app.shown
            assert not app.picker.check_action("remove", ())


@in_loop
async def test_what_is_being_fetched_here_cannot_be_removed(half: Library, server: Server) -> None:
    gate = threading.Event()
    server.answers[QWEN] = Answer(make_model().to_bytes(), gate=gate)
    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "enter")
        try:
            await until(pilot, lambda: "Esc stops it" in app.shown)
            assert not app.picker.check_action("remove", ())
            await pilot.press("escape")
            await until(pilot, lambda: app.picker._models.download is None)
        finally:
            gate.set()


@in_loop
async def test_what_cannot_be_removed_is_told(half: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **_how: object) -> None:
        raise OSError(13, "Permission denied")

    async with open_picker() as (app, pilot):
        await pilot.press(*"0.6b", "delete")
        monkeypatch.setattr(Path, "unlink", refused)
        await pilot.press("y")
        await until(pilot, lambda: "cannot write" in app.shown)
        assert "Permission denied" in app.shown
