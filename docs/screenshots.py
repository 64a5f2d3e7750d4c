"""Makes docs/screenshots/*.svg: python docs/screenshots.py

The app, its chats and its screens are the real ones; what a model would say comes from a script, and the clock stands
still, so that the same code gives the same pictures. Needs the development tools (make test).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from textual._doc import take_svg_screenshot

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from app.backends.base import Answer, Thinking  # noqa: E402
from app.hub.catalogue import starter  # noqa: E402
from app.hub.transfer import Steering, Transfer  # noqa: E402
from app.settings import paths  # noqa: E402
from app.ui.app import QChatApp  # noqa: E402
from app.ui.screens.picker.screen import PickerScreen  # noqa: E402
from tests.gguf_files import write_model  # noqa: E402
from tests.ui.app.harness import HOLD, ScriptedBackend  # noqa: E402
from tests.ui.app.still import Step, StillApp, StillClock, after, asked, held, pressed, until_shown  # noqa: E402

FOLDER = ROOT / "docs" / "screenshots"

WIDTH = """\
Because punched cards were. The first screens copied them, and nobody changed it since.

| device | year | columns |
|---|---:|---:|
| IBM card | 1928 | 80 |
| VT52 | 1974 | 80 |
| VT100 | 1978 | 80 or **132** |

To ask yours, in Python:

```python
import shutil

columns, rows = shutil.get_terminal_size()
print(f"{columns} x {rows}")
```
"""
CARDS = "Why are terminals 80 columns wide?"
THOUGHT = """\
They want a reason, and perhaps the history behind it. Punched cards had 80 columns, and the first screens were made to
show what a card holds. The VT100 could do 132 as well, but programs kept to 80.

A table with the years, then how to ask for the width of the window that one has."""
Picture = Callable[[StillClock], str]


def chat(clock: StillClock) -> str:
    script = [*_words(THOUGHT), clock.pass_by(2.6), Answer(WIDTH)]
    backend = ScriptedBackend([Answer("1, 1, 2, 3, 5, 8.")], [Answer("Danube, Rhine, Elbe.")], script)
    new = (pressed("ctrl+n"), until_shown("all keys and commands"))
    return taken(backend, asked("Fibonacci numbers"), *new, asked("Name three rivers."), *new, asked(CARDS))


def _words(text: str) -> list[Thinking]:
    return [Thinking(piece) for piece in re.findall(r"\S+\s*", text)]


def thinking(clock: StillClock) -> str:
    backend = ScriptedBackend([*_words(THOUGHT), clock.pass_by(2.6), Thinking(" Short."), HOLD])
    return taken(backend, pressed("ctrl+t"), held(CARDS, backend), until_shown("Short."), size=(90, 20))


def models(_clock: StillClock) -> str:
    async def half_way(app: QChatApp, _pilot: object) -> None:
        app.screen.post_message(PickerScreen.Moved(Transfer("downloading", 1_042_000_000, 2_497_000_000, 23.4e6)))

    steps: tuple[Step, ...] = (pressed("ctrl+o"), until_shown("fits"), pressed("down", "down", "down", "enter"))
    return taken(ScriptedBackend(), *steps, half_way, until_shown(" 42 %"), size=(100, 24))


def search(_clock: StillClock) -> str:
    backend = ScriptedBackend([Answer("Danube, Rhine, Elbe.")], [Answer(WIDTH)])
    new = (pressed("ctrl+n"), until_shown("all keys and commands"))
    find = (pressed("ctrl+s"), until_shown("Words, a part"), pressed(*"screens"), until_shown("1 found"))
    return taken(backend, asked("Name three rivers."), *new, asked(CARDS), *find, size=(90, 20))


def light(clock: StillClock) -> str:
    os.environ["QCHAT_THEME"] = "light"
    return chat(clock)


PICTURES: Mapping[str, Picture] = {each.__name__: each for each in (chat, thinking, models, search, light)}


def taken(backend: ScriptedBackend, *steps: Step, size: tuple[int, int] = (110, 34)) -> str:
    return take_svg_screenshot(StillApp(backend), terminal_size=size, run_before=after(*steps))


def picture(name: str) -> str:
    """The picture of that name, in a home of its own with one model."""

    def never_ends(_name: str, _library: object, steering: Steering, *_: object) -> None:
        steering._unwanted.wait()

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        for variable in [variable for variable in os.environ if variable.startswith(("QCHAT_", "HF_", "NO_COLOR"))]:
            patch.delenv(variable)
        patch.setenv("QCHAT_HOME", home)
        patch.setenv("QCHAT_THEME", "dark")
        patch.setattr("app.ui.screens.picker.view.free_memory", lambda: 12_400_000_000)
        patch.setattr("app.ui.screens.picker.shelf.backend_names", lambda: ["local"])
        patch.setattr("app.hub.download.handle.steered_pull", never_ends)
        paths().models_dir.mkdir(parents=True)
        model = paths().models_dir / starter().file_name
        write_model(model, architecture="llama", types="Q4_1", context_length=starter().context)
        os.truncate(model, starter().bytes)
        clock = StillClock()
        clock.set_on(patch)
        return PICTURES[name](clock)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(picture(name))
