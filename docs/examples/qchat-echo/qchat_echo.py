"""A backend that answers with the question, a word at a time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from app.backends.base import Answer, ChatRequest, Done, Event, Notice, Progress, PromptPiece, Usage
from app.errors import ModelNotFoundError
from app.settings import Settings

MODELS = ("echo", "shout")


def open_echo(settings: Settings, report: Callable[[Progress | Notice], None]) -> EchoBackend:
    """Called with every setting when a chat needs this backend; what takes long here is told through `report`."""
    model = settings.model or MODELS[0]  # "": nobody has named one
    if model not in MODELS:
        raise ModelNotFoundError(f"echo has no model {model}", f"it has: {', '.join(MODELS)}")
    table = settings.servers.get(settings.backend)  # [servers.NAME] with kind = "echo", if that is how it was asked for
    reverse = bool(table and table.body.get("reverse"))
    report(Progress("warming up", 1, 1))
    return EchoBackend(settings.backend, model, reverse)


class EchoBackend:
    """Answers one chat at a time."""

    def __init__(self, name: str, model: str, reverse: bool) -> None:
        self.name = name
        self.model = model
        self.facts: Mapping[str, Any] = {"reverse": str(reverse)}  # shown by --stats
        self._reverse = reverse

    async def models(self) -> Sequence[str]:
        return MODELS

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """Yield pieces as they come and one `Done` at the end. Closing the generator cancels it at a `yield`."""
        began = time.monotonic()
        words = re.findall(r"\s*\S+", self._text(request))
        room = len(words) if request.max_tokens == -1 else request.max_tokens
        for word in words[:room]:
            await asyncio.sleep(0)
            yield Answer(word)
        said = len(words[:room])
        usage = Usage(prompt_tokens=len(words), generated_tokens=said, decode_s=time.monotonic() - began)
        yield Done("stop" if said == len(words) else "length", usage)

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        return [PromptPiece(self._text(request), control=False)]

    async def close(self) -> None:
        pass

    def _text(self, request: ChatRequest) -> str:
        text = request.raw_prompt or str(request.messages[-1]["content"])
        text = text.upper() if self.model == "shout" else text
        return text[::-1] if self._reverse else text
