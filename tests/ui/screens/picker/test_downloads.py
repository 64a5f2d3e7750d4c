"""Downloads in the model picker: one that succeeds, one that fails, and one that is no longer wanted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.cli.progress import human_bytes
from app.hub.download.gather import steered_pull
from app.hub.library import Library
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
