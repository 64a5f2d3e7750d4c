"""The model picker, by its keys: choosing, filtering, and a download that succeeds, fails or is no longer wanted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from app.cli.progress import human_bytes
from app.hub.choices import Choice, completed
from app.hub.download.gather import steered_pull
from app.hub.library import Library
from tests.gguf_files import make_model, write_model
from tests.hub.files import Answer, Server, left_in
from tests.stopwatch import Stopwatch
from tests.ui.screens.picker_app import FREE, NOT_YET, PickerApp, in_loop, open_picker, until

QWEN = "/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf"


@pytest.fixture
def two_models(library: Library) -> Library:
    for name in ("apple", "pear"):
        write_model(library.models_dir / f"{name}.gguf", context_length=512, metadata={"general.name": name})
    return library


# -- choosing ---------------------------------------------------------------------------------------------------------


@in_loop
async def test_enter_takes_the_model_at_the_cursor(two_models: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press("down", "enter")
        assert app.chosen == "pear"
        assert two_models.find(app.chosen).name == "pear.gguf"


@in_loop
async def test_escape_takes_none(two_models: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press("escape")
        assert app.chosen is None


@in_loop
async def test_a_row_tells_type_size_context_and_whether_it_fits(two_models: Library) -> None:
    async with open_picker() as (app, _):
        words = next(row for row in app.rows if "pear" in row).split()
        assert words[:2] + words[-2:] == ["pear", "Q8_0", "512", "fits"]
        assert words[3] == "MB"
        large = next(row for row in app.rows if "qwen3:32b" in row)
        assert "~19.8 GB" in large and "Apache-2.0" in large
        assert "needs ~22.3 GB, 12.4 GB free" in large


@in_loop
async def test_the_model_in_use_is_marked_and_its_memory_counts_as_free(two_models: Library) -> None:
    async with open_picker(in_use="pear", held=30_000_000_000) as (app, _):
        assert app.cursor == "pear"
        assert "in use" in next(row for row in app.rows if "pear" in row)
        assert f"{(FREE + 30_000_000_000) / 1e9:.1f} GB of memory free" in app.shown
        assert "fits" in next(row for row in app.rows if "qwen3:32b" in row)


@in_loop
async def test_rows_stand_there_before_their_files_are_read(
    two_models: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()

    def slow(choice: Choice, kv: str, ctx: int, free: int | None) -> Choice:
        may_read.wait()
        return completed(choice, kv, ctx, free)

    monkeypatch.setattr("app.ui.screens.picker.completed", slow)
    app = PickerApp()
    async with app.run_test(size=(100, 30)) as pilot:
        try:
            await until(pilot, lambda: any("pear" in row and "reading ..." in row for row in app.rows))
            assert any("pear" in row and "MB" in row for row in app.rows)
            await pilot.press("down")
        finally:
            may_read.set()
        await until(pilot, lambda: any("pear" in row and "fits" in row for row in app.rows))
        assert app.cursor == "pear", "the cursor stays where the person moved it"


@in_loop
async def test_what_cannot_run_is_shown_with_its_reason_and_not_taken(library: Library) -> None:
    (library.models_dir / "broken.gguf").write_bytes(b"GGUF\x03\0\0\0 and no more")
    write_model(library.models_dir / "mamba.gguf", metadata={"general.architecture": "mamba"})
    write_model(library.models_dir / "zebra.gguf")
    async with open_picker(size=(140, 30)) as (app, pilot):
        assert app.cursor == "zebra", "the cursor begins where there is something to choose"
        for name, reason in (("mamba", "'mamba', which qchat does not run"), ("broken", "incomplete or corrupt")):
            await pilot.press("up")
            assert app.cursor == name
            assert "cannot run" in next(row for row in app.rows if name in row)
            await pilot.press("enter")
            assert app.chosen == NOT_YET
            assert reason in app.shown and "Enter" not in app.shown


@in_loop
async def test_escapes_and_markup_of_a_file_are_shown_and_do_nothing(library: Library) -> None:
    name = "evil\x1b[2J\x9b\u202e [bold]x"
    write_model(library.models_dir / f"{name}.gguf", metadata={"general.name": "T\x1b]0;title\x07 [red]y[/red]\n[/]"})
    async with open_picker(size=(140, 30)) as (app, pilot):
        assert r"evil\x1b[2J\x9b\u202e [bold]x" in app.shown
        assert r"T\x1b]0;title\x07 [red]y[/red]\n[/]" in app.shown
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(app.shown)
        await pilot.press("enter")
        assert app.chosen == name, "what is taken is the real name"


@in_loop
async def test_another_backend_is_named_with_the_way_to_its_models(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ui.screens.picker_shelf.backend_names", lambda: ["far", "local"])
    async with open_picker() as (app, pilot):
        assert "qchat --backend far" in app.rows[-1]
        await pilot.press("ctrl+end", "enter")
        assert app.cursor == "far" and app.chosen == NOT_YET
        assert "qchat --backend far --model NAME" in app.shown


# -- the filter -------------------------------------------------------------------------------------------------------


@in_loop
async def test_typing_filters_while_other_keys_move_in_the_list(two_models: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press(*"qwen3")
        names = [row.split()[0] for row in app.rows]
        assert names == ["To", "›", *(f"qwen3:{size}" for size in ("1.7b", "4b", "8b", "14b", "32b"))], (
            "the first has the cursor"
        )
        await pilot.press("pagedown")
        assert app.cursor == "qwen3:32b"
        await pilot.click("#models")
        await pilot.press("pagedown", "tab", "up", ":", "4")
        assert app.cursor == "qwen3:4b", "the filter has the focus all the time"
        await pilot.press("backspace", "backspace", "ctrl+home")
        assert app.cursor == "qwen3:0.6b"


@in_loop
async def test_a_filter_that_nothing_passes_is_said_and_nothing_is_taken(two_models: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press(*"zzz", "enter")
        assert app.rows == [] and app.chosen == NOT_YET
        assert "Nothing here has all of these words" in app.shown
        await pilot.press("escape")
        assert app.chosen is None


@in_loop
async def test_a_paste_of_many_lines_becomes_one_and_takes_nothing(two_models: Library) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press("x", "space")
        app.post_message(events.Paste("pear\r\n\x1b[201~\nq8_0\n"))
        field = app.picker.query_one(Input)
        await until(pilot, lambda: len(field.value) > 2)
        assert field.value == "x pear [201~ q8_0"
        assert app.chosen == NOT_YET


# -- a download -------------------------------------------------------------------------------------------------------


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
