"""`qchat` with a backend that answers by the words of the question: `python -m tests.ui.repl.scripted repl ...`."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator, Callable, Sequence

from app import cli
from app.backends.base import (
    Answer,
    ChatRequest,
    Done,
    Event,
    Generated,
    Notice,
    Progress,
    PromptPiece,
    Thinking,
)
from app.backends.usage import Usage
from app.chat import host
from app.errors import BackendError
from app.settings import Settings
from app.ui.repl import loop

EVIL = "\x1b[2J\x1b]52;c;aGk=\x07\x9b?1003h\rover\x08\u202e"
CODE = "Look:\n\n```python\nprint('hi')\n```\n\nThat is all."


class ScriptedBackend:
    """Says what the first word of the last question asks for; anything else is repeated."""

    name = "local"
    model = "scripted"

    def __init__(self) -> None:
        self.facts = {"load_s": 0.5}
        self._count = 0

    async def models(self) -> Sequence[str]:
        return [self.model]

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self._count += 1
        question: str = request.messages[-1]["content"]
        for event in self._events(question, request):
            yield event
        if question.split(maxsplit=1)[0] in ("endless", "prefill"):
            await asyncio.Event().wait()
        yield Done("stop", Usage(prompt_tokens=7, generated_tokens=5, prefill_s=0.5, decode_s=0.5, first_token_s=0.5))

    def _events(self, question: str, request: ChatRequest) -> Sequence[Event]:
        match question.split(maxsplit=1)[0]:
            case "endless":
                return [Answer("one two ")]
            case "prefill":
                return [Notice("it reads"), Progress("reading the prompt", 512, 8192)]
            case "think":
                return [Generated(1), Thinking("let me see"), Generated(340), Answer("so it is")]
            case "empty-think":
                return [Thinking("\n\n"), Answer("Hi")]
            case "evil":
                return [Answer(EVIL[:3]), Answer(EVIL[3:] + " end")]
            case "code":
                return [Answer(CODE)]
            case "count":
                return [Answer(f"reply number {self._count}")]
            case "digest":
                return [Answer(f"{len(question)} {hashlib.sha256(question.encode()).hexdigest()}")]
            case "settings":
                return [Answer(f"{request.sampling.top_k} {request.thinking} {request.messages[0]['content']}")]
            case "notice":
                return [Notice("the context is full"), Answer("anyway")]
            case "fail":
                raise BackendError("the server is down", "start it")
            case "bug":
                raise ZeroDivisionError
            case _:
                return [Answer(f"you said: {question}")]

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        pieces = [PromptPiece("<|user|>", True), PromptPiece(request.messages[-1]["content"], False)]
        return [*pieces, PromptPiece("<|end|>", True)]

    async def close(self) -> None:
        pass


def open_scripted(settings: Settings, report: Callable[[Progress | Notice], None]) -> ScriptedBackend:
    """The backend; a model called "loading" never finishes loading."""
    while settings.model == "loading":
        report(Progress("loading the model", 1, 100))
        threading.Event().wait(0.05)
    return ScriptedBackend()


if __name__ == "__main__":
    loop.SAVE_S, loop.CLOSE_S = 1.0, 0.5
    loop.BackendHost = lambda: host.BackendHost(open_scripted)  # type: ignore[assignment,misc]
    cli.main()
