"""The model picker, by its keys: choosing and filtering."""

from __future__ import annotations

import threading

import pytest
from textual import events
from textual.widgets import Input

from app.hub.choices import Choice, completed
from app.hub.library import Library
from tests.gguf_files import write_model
from tests.ui.screens.picker.app import FREE, NOT_YET, PickerApp, in_loop, open_picker, until

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

    monkeypatch.setattr("app.ui.screens.picker.view.completed", slow)
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
    monkeypatch.setattr("app.ui.screens.picker.shelf.backend_names", lambda: ["far", "local"])
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
