"""Every state of the model picker that a person can see, as a picture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from app.errors import DownloadError
from app.hub.catalogue.repository import offered
from app.hub.choices import Choice, at_server, unreachable_server
from app.hub.download.kept import KeptPart
from app.hub.library import Library, ModelEntry
from app.hub.library.huggingface import HuggingFaceStore
from app.hub.library.ollama import OllamaStore
from app.hub.transfer import Cancelled, Steering, Transfer
from app.settings import Settings
from app.ui.screens.picker.screen import PickerScreen
from app.ui.themes import DARK, LIGHT
from tests.gguf_files import write_model
from tests.hub.library.stores import in_hugging_face_cache, in_ollama
from tests.ui.screens.picker.app import FREE, PickerApp, described, until

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


def matches(compare: Snapshot, size: tuple[int, int], *steps: Step, theme: str = DARK.name) -> bool:
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
    assert matches(snap_compare, (100, 30), theme=LIGHT.name)


@pytest.mark.usefixtures("models")
def test_a_filtered_list(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down"))


@pytest.mark.usefixtures("models")
def test_a_model_that_cannot_run(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys("ctrl+home"))


@pytest.fixture(params=["dark", "light", "no-colours"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The theme that the app shows a state in."""
    if request.param == "no-colours":
        monkeypatch.setenv("NO_COLOR", "1")
        return "ansi-dark"
    return LIGHT.name if request.param == "light" else DARK.name


@pytest.mark.usefixtures("models", "stuck")
def test_a_download_that_runs(snap_compare: Snapshot, look: str) -> None:
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down", "enter"), half_way, theme=look)


@pytest.mark.usefixtures("models", "stuck")
def test_a_download_that_is_paused(snap_compare: Snapshot, look: str) -> None:
    steps = keys(*"qwen3", "down", "enter"), half_way, keys("enter"), standing
    assert matches(snap_compare, (80, 24), *steps, theme=look)


@pytest.mark.usefixtures("models")
def test_a_download_that_failed(snap_compare: Snapshot, look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        where = "/Qwen/Qwen3-1.7B-GGUF/resolve/main/Qwen3-1.7B-Q8_0.gguf"
        raise DownloadError(f"huggingface.co answered 404 for {where}: not found", "check the names")

    async def failed(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "failed" in pilot.app.shown)  # type: ignore[attr-defined]

    monkeypatch.setattr("app.hub.download.handle.steered_pull", refused)
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down", "enter"), failed, theme=look)


@pytest.mark.usefixtures("library")
def test_a_first_run(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24))


@pytest.fixture
def elsewhere(models: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models in the stores of other programs, one of them broken, and a download that was stopped."""
    in_hugging_face_cache(tmp_path / "hub", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/qwen3/0.6b")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/broken/latest", manifest=b"{")
    stores = [HuggingFaceStore(tmp_path / "hub"), OllamaStore(tmp_path / "ollama")]
    monkeypatch.setattr("tests.ui.screens.picker.app.Library", lambda folder: Library(folder, stores))
    part = KeptPart("Qwen3-1.7B-Q8_0.gguf", 5, 742_000_000, 1_834_000_000, "qwen3:1.7b", busy=False)
    monkeypatch.setattr("app.hub.download.kept.kept_parts", lambda _: [part])


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_models_of_other_programs(snap_compare: Snapshot, size: tuple[int, int]) -> None:
    assert matches(snap_compare, size)


@pytest.mark.usefixtures("elsewhere")
def test_a_download_that_was_stopped(snap_compare: Snapshot, look: str) -> None:
    assert matches(snap_compare, (80, 24), keys(*"1.7b"), theme=look)


@pytest.mark.usefixtures("elsewhere")
def test_removing_what_a_download_has_left(snap_compare: Snapshot, look: str) -> None:
    async def asked(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "Remove this download?" in pilot.app.shown)  # type: ignore[attr-defined]

    assert matches(snap_compare, (80, 24), keys(*"1.7b", "delete"), asked, theme=look)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("size", [(80, 24), (100, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_models_of_servers(
    snap_compare: Snapshot, size: tuple[int, int], qchat_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has answered, one that has not yet, one that is not there."""
    names = ("desk", "slow", "gone")
    tables = [
        f'[servers.{name}]\nkind = "ollama"\nurl = "http://{name}.example:11434"\nmodel = "qwen3:4b"\n'
        for name in names
    ]
    (qchat_home / "config.toml").write_text("".join(tables))

    def answers(settings: Settings, report: Callable[[str, list[Choice]], object]) -> None:
        desk, _, gone = (settings.servers[name] for name in names)
        report("desk", at_server(desk, ["llama3.2:3b", "qwen3:4b", "gpt-oss:20b"]))
        report("gone", [unreachable_server(gone, "cannot be reached at http://gone.example:11434: connection refused")])

    async def told(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, PickerApp)
        await until(pilot, lambda: "cannot be reached" in "".join(app.rows))
        await pilot.press("ctrl+end", "up", "up", "up")

    monkeypatch.setattr("app.ui.screens.picker.view.ask_servers", answers)
    assert matches(snap_compare, size, told)


async def standing(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, PickerApp)
    app.picker.post_message(PickerScreen.Moved(Transfer("paused", 742_000_000, 1_834_000_000)))
    await until(pilot, lambda: "GB  paused" in app.shown)


REPOSITORY = offered(
    "Qwen/Qwen3-4B-GGUF",
    [
        ("Qwen3-4B-Q2_K.gguf", 1_669_000_000),
        ("Qwen3-4B-Q4_K_M.gguf", 2_497_000_000),
        ("Qwen3-4B-Q8_0.gguf", 4_280_000_000),
        ("Qwen3-4B-F16-00001-of-00002.gguf", 8_000_000_000),
        ("Qwen3-4B-F16-00002-of-00002.gguf", 8_000_000_000),
    ],
    FREE,
)


async def answered(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "Q4_K_M" in pilot.app.shown)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("models")
def test_a_repository_that_may_be_asked_for(snap_compare: Snapshot) -> None:
    assert matches(snap_compare, (80, 24), keys(*"hf:Qwen/Qwen3-4B-GGUF"))


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_quantisations_of_a_repository(
    snap_compare: Snapshot, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ui.screens.picker.repositories.look", lambda *_: REPOSITORY)
    assert matches(snap_compare, size, keys(*"hf:Qwen/Qwen3-4B-GGUF", "enter"), answered)


@pytest.mark.usefixtures("models")
def test_a_model_that_came_and_was_verified(snap_compare: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fetched:
        """A download that is over at once."""

        paused = False

        def __init__(self, _source: str, library: Library, _report: object, notify: Callable[[str], None]) -> None:
            self._library, self._notify = library, notify

        def run(self) -> ModelEntry:
            path = write_model(self._library.models_dir / "Qwen3-1.7B-Q8_0.gguf", context_length=40_960)
            self._notify(f"{path.name}: verified, sha256 {'0123456789abcdef' * 4}")
            return self._library.entry(path)

    async def came(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "verified" in pilot.app.shown)  # type: ignore[attr-defined]
        await described(pilot)

    monkeypatch.setattr("app.ui.screens.picker.download.Fetching", Fetched)
    assert matches(snap_compare, (80, 24), keys(*"qwen3", "down", "enter"), came)
