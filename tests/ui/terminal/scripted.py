"""`qchat` with a backend that answers by the first word of the question: `python -m tests.ui.terminal.scripted`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from typing import NoReturn

from app import cli
from app.backends.base import Answer, ChatRequest, Done, Event, Notice, Progress, Thinking, ToolCall
from app.backends.usage import Usage
from app.chat import host
from app.settings import Settings
from app.ui import app as the_app
from app.ui.chat_screen.screen import ChatScreen
from tests.ui.repl import scripted

# What a hostile text does: clears, moves, colours, titles, the clipboard, a mouse mode, another character set, a bell.
EVIL = "\x1b[2J\x1b[1;1H\x1b[31m\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[?1003h\x1bc\x9b31m\x0e\x08\r\u202etxt"


class Backend(scripted.ScriptedBackend):
    """Also says evil things in every place, writes to stderr, and has a bug."""

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        match request.messages[-1]["content"].split(maxsplit=1)[0]:
            case "evil":
                link = f"[link](http://example.org/{EVIL}) <http://example.org/\x1b]8;;x\x07>"
                yield Thinking(EVIL)
                yield Answer(f"{EVIL} {link}\n\n```{EVIL}\n{EVIL}\n```\n\n| {EVIL} |\n|---|\n| {EVIL} |\n")
                yield ToolCall(EVIL, {EVIL: EVIL}, EVIL)
                yield Notice(EVIL)
                yield Done("stop", Usage())
            case "stderr":
                os.write(2, b"native noise")
                print("printed noise", file=sys.stderr)
                yield Answer("all quiet")
                yield Done("stop", Usage())
            case _:
                async for event in super().chat(request):
                    yield event


def open_backend(settings: Settings, report: Callable[[Progress | Notice], None]) -> Backend:
    """A model called "slow" is never loaded."""
    while settings.model == "slow":
        report(Progress("loading the model", 1, 100))
        time.sleep(0.05)
    return Backend()


async def _bug(*_: object) -> NoReturn:
    raise ZeroDivisionError("a bug")


if __name__ == "__main__":
    the_app.BackendHost = lambda: host.BackendHost(open_backend)  # type: ignore[assignment,misc]
    the_app.SAVE_WITHIN_S = 0.5
    ChatScreen.action_stats = _bug  # type: ignore[method-assign]
    ChatScreen._search = _bug  # type: ignore[method-assign]
    cli.main()
