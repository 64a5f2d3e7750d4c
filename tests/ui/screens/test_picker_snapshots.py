"""Every state of the model picker that a person can see, as a picture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from app.errors import DownloadError
from app.hub.library import Library
from app.hub.transfer import Cancelled, Steering, Transfer
from app.ui.screens.picker import PickerScreen
from tests.gguf_files import write_model
from tests.ui.screens.picker_app import PickerApp, described, until

Snapshot = Callable[..., bool]
Step = Callable[[Pilot[None]], Awaitable[None]]


@pytest.fixture
def models(library: Library) -> Library:
    """Models that run, one of them in use, and two that cannot run."""
    folder = library.models_dir
    write_model(folder / "notes-helper-Q8_0.gguf", context_length=512, metadata={"general.name": "Notes \x1b[2J [b]"})
    write_model(folder / "SmolLM2-135M-Instruct.Q4_1.gguf", architecture="llama", types="Q4_1")
    write_model(folder / "mamba.gguf", metadata={"general.architecture": "mamba", "general.name": "Mamba"})
    (folder / "half-of-it.gguf").write_bytes(b"GGUF\x03\0\0\0 and no more")
    return library


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull that does nothing but end when it is no longer wanted."""

    def wait(_name: str, _library: Library, steering: Steering, *_: object) -> None:
        steering._unwanted.wait()
        raise Cancelled

    monkeypatch.setattr("app.hub.download.handle.steered_pull", wait)


def matches(compare: Snapshot, size: tuple[int, int], *steps: Step, theme: str = "textual-dark") -> bool:
    async def prepare(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.rows)
        await described(pilot)
        for step in steps:
            await step(pilot)
            await pilot.pause()

    app = PickerApp(in_use="smollm2:135m", theme=theme)
    return compare(app, terminal_size=size, run_before=prepare)


def keys(*pressed: str) -> Step:
    async def press(pilot: Pilot[None]) -> None:
        await pilot.press(*pressed)

    return press


async def half_way(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, PickerApp)
    transfer = Transfer("downloading", 742_000_000, 1_834_000_000, 23_400_000.0)
    app.picker.post_message(PickerScreen.Moved(transfer))
    await until(pilot, lambda: " 40 %" in app.shown)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_list(snap_compare: Snapshot, size: tuple[int, int]) -> None:
    assert matches(snap_compare, size)


@pytest.mark.usefixtures("models")
def test_the_list_in_a_light_theme(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (100, 30), theme="textual-light")


@pytest.mark.usefixtures("models", "stuck")
def test_a_download_without_colours(snap_compare: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert matches(snap_compare, (80, 24), keys(*"3:1.7b", "enter"), half_way)


@pytest.mark.usefixtures("models")
def test_a_filtered_list(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down"))


@pytest.mark.usefixtures("models")
def test_a_model_that_cannot_run(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys("ctrl+home"))


@pytest.mark.usefixtures("models", "stuck")
def test_a_download_that_runs(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down", "enter"), half_way)


@pytest.mark.usefixtures("models")
def test_a_download_that_failed(snap_compare: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        where = "/Qwen/Qwen3-1.7B-GGUF/resolve/main/Qwen3-1.7B-Q8_0.gguf"
        raise DownloadError(f"huggingface.co answered 404 for {where}: not found", "check the names")

    async def failed(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "failed" in pilot.app.shown)  # type: ignore[attr-defined]

    monkeypatch.setattr("app.hub.download.handle.steered_pull", refused)
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down", "enter"), failed)


@pytest.mark.usefixtures("library")
def test_a_first_run(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24))
