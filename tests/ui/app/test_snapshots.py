"""Every state of the app that a person can see, as a picture.

The pictures depend on nothing but the code: the clock stands still, the backend is scripted, every test has a home of
its own. After a change of looks: pytest tests/ui/app/test_snapshots.py --snapshot-update, and look at each picture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from app.backends.base import Answer, Done, Notice, Progress, Thinking, ToolCall
from app.errors import BackendError
from app.settings import paths
from app.ui.app import QChatApp
from tests.gguf_files import write_model
from tests.ui.app.harness import HOLD, USAGE, ScriptedBackend, pieces, screen
from tests.ui.app.still import Step, StillApp, StillClock, after, asked, held, pressed, typed, until_shown

REPLY = """\
A terminal is **80 columns** wide by default. Three reasons:

1. Punched cards had 80 columns.
2. The first screens copied the cards.
3. Nobody changed it since; see `man 1 stty`.

| device | columns |
|---|---:|
| card | 80 |
| VT100 | 80 or 132 |

```python
import shutil

columns, rows = shutil.get_terminal_size()  # of this window
print(f"{columns} x {rows}")
```
"""
WIDE = """\
日本語の文章は二桁の幅を持つ文字で書かれています。折り返しが正しいかどうかを確かめるための長い一行です。

| 名前 | emoji | rtl |
|---|---|---|
| 猫 | 👨‍👩‍👧‍👦 ⚠️ 🇩🇪 | שלום |
| e\u0301 | 🐺 | مرحبا |

שלום עולם, and mixed مرحبا بالعالم text.
"""
Compare = Callable[..., bool]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    clock = StillClock()
    clock.set_on(monkeypatch)
    monkeypatch.setenv("QCHAT_THEME", "dark")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return clock


@pytest.fixture
def model(own_home: object) -> None:
    """A model on this disk, so that this is no first run."""
    folder = paths().models_dir
    folder.mkdir(parents=True)
    write_model(folder / "SmolLM2-135M-Instruct.Q4_1.gguf", architecture="llama", types="Q4_1")


@pytest.fixture
def same_without_models(snap_compare: Callable[..., bool], clock: StillClock) -> Compare:
    """Whether the app, on a machine without a model, looks as it did after these steps."""

    def compare(backend: ScriptedBackend, *steps: Step, size: tuple[int, int] = (100, 30), **options: Any) -> bool:
        return snap_compare(StillApp(backend, **options), terminal_size=size, run_before=after(*steps))

    return compare


@pytest.fixture
def same(same_without_models: Compare, model: None) -> Compare:
    """Whether the app looks as it did after these steps."""
    return same_without_models


def answering(*answers: str) -> ScriptedBackend:
    return ScriptedBackend(*[[Answer(text)] for text in answers or (REPLY,)])


SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 12)], ids=lambda size: f"{size[0]}x{size[1]}")


# Before the first question


def test_empty(same: Compare) -> None:
    assert same(answering())


@SIZES
def test_empty_in_other_windows(same: Compare, size: tuple[int, int]) -> None:
    assert same(answering(), size=size)


@pytest.mark.parametrize("size", [(80, 24), (100, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_first_run(same_without_models: Compare, size: tuple[int, int]) -> None:
    assert same_without_models(answering(), size=size)


def test_a_model_that_is_not_there(same: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_MODEL", "qwen3:4b")
    assert same(answering(), size=(80, 24))


# A reply


def test_a_reply(same: Compare) -> None:
    assert same(answering(), asked("Why are terminals 80 columns wide?"))


@SIZES
def test_a_reply_in_other_windows(same: Compare, size: tuple[int, int]) -> None:
    assert same(answering(), asked("Why are terminals 80 columns wide?"), size=size)


def test_a_model_that_loads(same: Compare) -> None:
    backend = ScriptedBackend([Progress("loading the model", 40, 100), HOLD])
    assert same(backend, held("Hello?", backend), until_shown("40 %"))


def test_a_prompt_that_is_read(same: Compare) -> None:
    backend = ScriptedBackend([Progress("reading the prompt", 512, 2048), HOLD])
    assert same(backend, held("Hello?", backend), until_shown("25 %"), size=(80, 24))


def test_a_notice_before_the_reply(same: Compare) -> None:
    backend = ScriptedBackend([Notice("compiling kernels (once)"), HOLD])
    assert same(backend, held("Hello?", backend), until_shown("compiling"), size=(80, 24))


def test_an_answer_that_comes(same: Compare, clock: StillClock) -> None:
    backend = ScriptedBackend([*pieces(REPLY[:150]), clock.pass_by(1.5), Answer(" and"), HOLD])
    assert same(backend, held("Why?", backend), until_shown(" and", "tokens/s"))


def test_an_open_fence(same: Compare) -> None:
    backend = ScriptedBackend([Answer(REPLY[: REPLY.index("print(")]), HOLD])
    assert same(backend, held("Show me code", backend), until_shown("of this window"))


def test_thinking_that_comes(same: Compare, clock: StillClock) -> None:
    backend = ScriptedBackend([Thinking("The cards, "), clock.pass_by(3), Thinking("then the screens."), HOLD])
    assert same(backend, held("Why?", backend), until_shown("Thinking…"))


def test_thinking_that_comes_and_is_open(same: Compare, clock: StillClock) -> None:
    backend = ScriptedBackend([Thinking("The cards, "), clock.pass_by(3), Thinking("then the screens."), HOLD])
    assert same(backend, pressed("ctrl+t"), held("Why?", backend), until_shown("then the screens."))


def thoughtful(clock: StillClock) -> ScriptedBackend:
    thought = "The person asks about columns.\n\nPunched cards had 80 of them, so I begin there and keep it short."
    return ScriptedBackend([Thinking(thought), clock.pass_by(2.4), Answer("Because of punched cards.")])


def test_thinking_that_is_closed(same: Compare, clock: StillClock) -> None:
    assert same(thoughtful(clock), asked("Why?"))


def test_thinking_that_is_open(same: Compare, clock: StillClock) -> None:
    assert same(thoughtful(clock), asked("Why?"), pressed("ctrl+t"), until_shown("Punched"))


def test_a_tool_call(same: Compare) -> None:
    call = ToolCall("get_weather", {"city": "Wien", "days": 3}, "")
    assert same(ScriptedBackend([Answer("I look it up."), call]), asked("Weather in Wien?"))


def test_an_error(same: Compare) -> None:
    error = BackendError("the model file ends early: 12 of 98 MB", "'qchat models pull smollm2:135m' fetches it again")
    assert same(ScriptedBackend([error]), asked("Hello?"))


def test_a_stopped_reply(same: Compare) -> None:
    backend = ScriptedBackend([Answer("The first half of"), HOLD])
    assert same(backend, held("Why?", backend), until_shown("first half"), pressed("escape"), until_shown("stopped"))


def test_a_reply_that_was_cut_off(same: Compare) -> None:
    backend = ScriptedBackend([Answer("It goes on and"), Done("length", USAGE)])
    assert same(backend, asked("Tell me everything"))


def test_a_notice(same: Compare) -> None:
    notice = Notice("the context of 4,096 tokens is full; messages left out, the oldest first: 2")
    assert same(ScriptedBackend([notice, Answer("Yes.")]), asked("Still there?"), size=(80, 24))


def test_branches(same: Compare) -> None:
    steps = (asked("Name a river."), pressed("ctrl+r"), until_shown("Rhine"), pressed("ctrl+r"), until_shown("Elbe"))
    assert same(answering("Danube", "Rhine", "Elbe"), *steps, pressed("alt+left"), until_shown("2/3"))


def test_a_selected_message(same: Compare) -> None:
    assert same(answering(), asked("Why are terminals 80 columns wide?"), pressed("alt+up", "alt+up"), size=(80, 24))


def test_an_edit(same: Compare) -> None:
    assert same(answering(), asked("Why are terminals 80 columns wide?"), pressed("alt+e"))


def test_a_long_question_is_folded(same: Compare) -> None:
    question = "\n".join(f"{'  ' * (n % 4)}line {n}\tof a paste" for n in range(200))
    assert same(answering("Long."), asked(question))


def test_wide_and_right_to_left_text(same: Compare) -> None:
    assert same(answering(WIDE), asked("日本語と絵文字 👩‍🚀 で答えて。שלום"))


# Chats


def three_chats() -> tuple[ScriptedBackend, Step]:
    async def begin(app: QChatApp, pilot: Any) -> None:
        for question in (
            "A first chat",
            "日本語の題名を持つとても長いチャットの名前です",
            "Why are terminals 80 columns wide?",
        ):
            await asked(question)(app, pilot)
            if question[-1] != "?":
                await pressed("ctrl+n")(app, pilot)

    return answering("One.", "Two.", REPLY), begin


def test_chats(same: Compare) -> None:
    backend, begin = three_chats()
    assert same(backend, begin, pressed("ctrl+b"))


def test_chats_in_a_narrow_window(same: Compare) -> None:
    backend, begin = three_chats()
    assert same(backend, begin, pressed("ctrl+b"), size=(60, 20))


async def search(app: QChatApp, pilot: Pilot[int]) -> None:
    await pressed("ctrl+s")(app, pilot)
    await until_shown("Search in all chats", "Words, a part")(app, pilot)


def test_a_search(same: Compare) -> None:
    backend, begin = three_chats()
    assert same(backend, begin, search, pressed(*"columns"), until_shown("3 found"))


def test_a_search_that_found_nothing(same: Compare) -> None:
    assert same(answering(), search, pressed(*"xyz"), until_shown("0 found"), size=(80, 24))


def test_rename(same: Compare) -> None:
    seen = [until_shown("Rename this chat")]
    assert same(answering("Yes."), asked("Is this a title?"), typed("/rename"), pressed("enter"), *seen, size=(80, 24))


def pretend_to_copy(said: str) -> Step:
    async def pretend(app: QChatApp, _pilot: object) -> None:
        view = screen(app)
        view.copy = lambda text, what: view.say(f"{said} {what}")  # type: ignore[method-assign]

    return pretend


async def disk_is_full(app: QChatApp, _pilot: object) -> None:
    app.saver.failing = "the disk is full"
    app._saving_changed()


def test_what_is_not_saved(same: Compare) -> None:
    assert same(answering("Yes."), asked("Is it saved?"), disk_is_full, size=(80, 24))


def test_a_message_in_the_corner(same: Compare) -> None:
    copied = "copied 4 characters with"
    steps = (asked("Copy this"), pressed("alt+c"), until_shown(copied))
    assert same(answering("Yes."), pretend_to_copy(copied), *steps, size=(80, 24))


# Screens and hints


@pytest.mark.parametrize("size", [(40, 20), (80, 24), (130, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_help(same: Compare, size: tuple[int, int]) -> None:
    assert same(answering(), pressed("f1"), until_shown("Everywhere"), size=size)


def test_settings(same: Compare) -> None:
    assert same(answering(), pressed("f2"), until_shown("seed"), size=(80, 24))


def test_a_wrong_setting(same: Compare) -> None:
    steps = (pressed("f2"), until_shown("seed"), pressed("tab", "tab", "tab", *"hot", "enter"), until_shown("cannot"))
    assert same(answering(), *steps, size=(80, 24))


def test_slash_commands(same: Compare) -> None:
    assert same(answering(), typed("/"), size=(80, 24))


def test_a_slash_command_that_is_nearly_typed(same: Compare) -> None:
    assert same(answering(), typed("/se"))


def test_the_palette(same: Compare) -> None:
    assert same(
        answering(),
        pressed("ctrl+p"),
        until_shown("Search for commands"),
        pressed(*"copy"),
        until_shown("Copy the last reply"),
        size=(80, 24),
    )


def test_the_exact_prompt(same: Compare) -> None:
    assert same(answering("Yes."), asked("Is this it?"), typed("/prompt"), pressed("enter"), until_shown("im_start"))


def test_statistics(same: Compare) -> None:
    assert same(answering("Yes."), asked("How fast?"), typed("/stats"), pressed("enter"), until_shown("threads"))


def test_the_model_picker(same: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.screens.picker.view.free_memory", lambda: 12_400_000_000)
    monkeypatch.setattr("app.ui.screens.picker.shelf.backend_names", lambda: ["local"])
    assert same(answering(), pressed("ctrl+o"), until_shown("fits"), size=(100, 30))


# Colours


def test_light(same: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_THEME", "light")
    backend, begin = three_chats()
    assert same(backend, begin, pressed("alt+up", "alt+up"), size=(110, 36))


def test_dark(same: Compare) -> None:
    backend, begin = three_chats()
    assert same(backend, begin, pressed("alt+up", "alt+up"), size=(110, 36))


def test_the_terminal_s_own_colours(same: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_THEME", "ansi")
    backend, begin = three_chats()
    assert same(backend, begin, pressed("alt+up", "alt+up"), size=(110, 36))


def test_without_colours(same: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    backend, begin = three_chats()
    assert same(backend, begin, pressed("alt+up", "alt+up"), size=(110, 36))
