"""The model picker on what lies elsewhere or is not complete: stores, repositories, pauses, unfinished downloads."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from app.hub.library import Library
from app.hub.library.huggingface import HuggingFaceStore
from app.hub.library.ollama import OllamaStore
from app.settings import paths
from tests.hub.download.scripted import Hub, Request, Script, after_probe, hub, serve_file, sha256, stretch
from tests.hub.library.stores import MODEL, in_hugging_face_cache, in_ollama
from tests.ui.screens.picker.app import NOT_YET, PickerApp, described, in_loop, open_picker, until

__all__ = ["hub"]

TREE = "/api/models/o/r/tree/main"
FILE = "/o/r/resolve/main/m-Q8_0.gguf"


@pytest.fixture
def with_stores(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The picker's library has two stores, one of them with a broken model."""
    in_hugging_face_cache(tmp_path / "hub", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/qwen3/0.6b")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/broken/latest", manifest=b"{")
    stores = [HuggingFaceStore(tmp_path / "hub"), OllamaStore(tmp_path / "ollama")]
    monkeypatch.setattr("tests.ui.screens.picker.app.Library", lambda folder: Library(folder, stores))
    return library


def serve_repository(hub: Hub, script: Script) -> None:
    """o/r has two models, and `script` serves the one in Q8_0."""
    files = [("m-Q8_0.gguf", len(MODEL), sha256(MODEL)), ("m-Q2_K.gguf", 5, "0" * 64)]
    listing = [{"type": "file", "path": p, "size": n, "lfs": {"oid": digest, "size": n}} for p, n, digest in files]
    hub.scripts[TREE] = lambda request: request.answer(200, json.dumps(listing).encode())
    hub.scripts[FILE] = script


def half(gate: threading.Event) -> Script:
    """Serves the file, but the second half only once `gate` is open."""

    def script(request: Request) -> None:
        first, stop = stretch(request, MODEL)
        request.head(206, Content_Length=stop - first, Content_Range=f"bytes {first}-{stop - 1}/{len(MODEL)}")
        middle = (first + stop) // 2
        request.send(MODEL[first:middle])
        gate.wait(60)
        request.send(MODEL[middle:stop])

    return after_probe(script, MODEL)


@in_loop
async def test_each_store_has_a_heading_and_its_models_are_taken_by_their_names(with_stores: Library) -> None:
    async with open_picker() as (app, pilot):
        assert app.rows[0].split("  ")[1] == "Hugging Face cache"
        assert app.rows[1].startswith("› Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0 ")
        assert any(row.strip().startswith("Ollama") for row in app.rows)
        assert "cannot run: its manifest is damaged" in app.shown
        await pilot.press(*"ollama qwen")
        await until(pilot, lambda: app.cursor == "qwen3:0.6b")
        assert "ollama:qwen3:0.6b" in app.shown, "the whole name stands below"
        await pilot.press("enter")
        assert app.chosen == "ollama:qwen3:0.6b"


@in_loop
async def test_a_long_name_keeps_its_end_in_a_narrow_window(with_stores: Library) -> None:
    async with open_picker(size=(80, 24)) as (app, _):
        row = next(row for row in app.rows if "Q8_0" in row and "…" in row)
        assert "Qwen3-0.6B-Q8_0 " in row and "fits" in row


@in_loop
async def test_a_repository_is_asked_for_and_its_quantisation_fetched_and_verified(library: Library, hub: Hub) -> None:
    serve_repository(hub, serve_file(MODEL))
    async with open_picker() as (app, pilot):
        await pilot.press(*"hf:o/r")
        await until(pilot, lambda: app.cursor == "hf:o/r")
        assert f"Enter asks {hub.url} which quantisations it has" in app.shown and hub.requests == []
        await pilot.press("enter")
        await until(pilot, lambda: app.cursor == "m-Q8_0.gguf")
        assert "fits, best" in next(row for row in app.rows if "m-Q8_0" in row)
        assert "cannot run: qchat does not run Q2_K" in next(row for row in app.rows if "m-Q2_K" in row)
        assert "Enter downloads it" in app.shown
        await pilot.press("enter")
        await until(pilot, lambda: "verified, sha256" in app.shown)
        await described(pilot)
        assert app.cursor == "m-Q8_0" and sha256(MODEL)[:8] in app.shown
        await pilot.press("enter")
        assert app.chosen == "m-Q8_0" and library.find("m-Q8_0").read_bytes() == MODEL


@in_loop
async def test_a_repository_that_is_not_there_is_told_of_and_can_be_asked_again(library: Library, hub: Hub) -> None:
    async with open_picker() as (app, pilot):
        await pilot.press(*"hf:o/r", "enter")
        await until(pilot, lambda: "has no list of files of o/r" in app.shown)
        assert app.cursor == "hf:o/r" and app.chosen == NOT_YET
        serve_repository(hub, serve_file(MODEL))
        await pilot.press("enter")
        await until(pilot, lambda: app.cursor == "m-Q8_0.gguf")


@in_loop
async def test_a_hub_that_is_busy_is_waited_for_until_somebody_has_enough(library: Library, hub: Hub) -> None:
    gate = threading.Event()

    def busy(request: Request) -> None:
        if request.number == 0:
            request.answer(503, Retry_After=50)
        else:
            gate.wait(60)
            request.answer(200, b"[]")

    hub.scripts["/api/models/o/r/tree/main"] = busy
    async with open_picker() as (app, pilot):
        await pilot.press(*"hf:o/r", "enter")
        await until(pilot, lambda: "answered 503" in app.shown)
        assert "Esc stops it" in app.shown
        await pilot.press("escape")
        await until(pilot, lambda: "Enter asks for it" in app.shown)
        await pilot.press("enter")
        await until(pilot, lambda: len(hub.requests) == 2)
        assert "asking for hf:o/r ..." in app.shown and "503" not in app.shown
        await pilot.press("escape")
        serve_repository(hub, serve_file(MODEL))
        await pilot.press("enter")
        await until(pilot, lambda: app.cursor == "m-Q8_0.gguf")
        gate.set()  # what the stopped question brings changes nothing
        await pilot.pause()
        assert app.cursor == "m-Q8_0.gguf" and app.chosen == NOT_YET


@in_loop
async def test_a_download_is_paused_and_goes_on(library: Library, hub: Hub) -> None:
    gate = threading.Event()
    serve_repository(hub, half(gate))
    async with open_picker() as (app, pilot):
        await pilot.press(*"hf:o/r", "enter")
        await until(pilot, lambda: app.cursor == "m-Q8_0.gguf")
        await pilot.press("enter")
        await until(pilot, lambda: "━" in app.shown and "Enter pauses it" in app.shown)
        await pilot.press("enter")
        await until(pilot, lambda: "paused" in "".join(app.rows) and "Enter goes on" in app.shown)
        assert "/s" not in "".join(app.rows), "what stands still has no speed"
        gate.set()
        assert library.own() == []
        await pilot.press("enter")
        await until(pilot, lambda: "verified, sha256" in app.shown)
        assert library.find("m-Q8_0").read_bytes() == MODEL


@in_loop
async def test_what_was_stopped_is_a_row_to_go_on_with(
    library: Library, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    serve_repository(hub, half(gate))
    async with open_picker() as (app, pilot):
        await pilot.press(*"hf:o/r", "enter")
        await until(pilot, lambda: app.cursor == "m-Q8_0.gguf")
        await pilot.press("enter")
        await until(pilot, lambda: " 50 %" in "".join(app.rows))
        await pilot.press("escape")
        await until(pilot, lambda: "was stopped; Enter goes on with it" in app.shown)
        gate.set()
        assert app.cursor == "m-Q8_0.gguf" and any("Not complete" in row for row in app.rows)
    serve_repository(hub, serve_file(MODEL))
    before = len(hub.requests)
    app = PickerApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.rows)
        (row,) = (row for row in app.rows if "m-Q8_0.gguf" in row)
        assert "%" in row and app.cursor == "m-Q8_0.gguf"
        await pilot.press("enter")
        await until(pilot, lambda: "verified, sha256" in app.shown)
    asked = [request.range for request in hub.requests[before:] if request.path == FILE and request.range != (0, 0)]
    assert asked and asked[0] is not None and asked[0][0] > 0, "what was here was not fetched again"
    assert (paths().models_dir / "m-Q8_0.gguf").read_bytes() == MODEL
