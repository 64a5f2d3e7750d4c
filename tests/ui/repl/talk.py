"""The line interface in this process, with what a person types written down before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.chat.host import BackendHost
from app.ui.repl import loop
from app.ui.repl.typed import InterruptError, Typed
from tests.ui.repl.scripted import open_scripted

CTRL_C = "\x03"


@dataclass
class Entries:
    """Types the entries in turn, then ends. An entry may be CTRL_C or a function, which is called at the prompt."""

    entries: list[str | Callable[[], str]]
    edits: bool
    prompts: list[str] = field(default_factory=list)
    drafts: list[str] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)  # stdout and stderr before each prompt
    capture: Callable[[], Any] = lambda: ("", "")

    async def read(self, prompt: str, draft: str = "") -> Typed:
        self.prompts.append(prompt)
        self.drafts.append(draft)
        self.outputs.append(tuple(self.capture()))
        if not self.entries:
            raise EOFError
        entry = self.entries.pop(0)
        text = entry if isinstance(entry, str) else entry()
        if text == CTRL_C:
            raise InterruptError
        return Typed(text)

    def interrupt(self) -> bool:
        return False

    def aside(self, write: Callable[[], None]) -> None:
        write()

    @contextmanager
    def while_busy(self, stop: Callable[[], None]) -> Iterator[None]:
        yield


@dataclass
class Talk:
    """What there was to see: `out` and `err` after each entry, and what the prompts began with."""

    repl: loop.Repl
    source: Entries

    @property
    def out(self) -> list[str]:
        return [out for out, _ in self.source.outputs[1:]]

    @property
    def err(self) -> list[str]:
        return [err for _, err in self.source.outputs[1:]]

    @property
    def drafts(self) -> list[str]:
        return self.source.drafts[1:]

    @property
    def prompts(self) -> list[str]:
        return self.source.prompts[1:]


class Talker:
    """Calling it types the entries and returns what there was to see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setattr(loop, "BackendHost", lambda: BackendHost(open_scripted))
        self._capsys = capsys

    def __call__(
        self,
        *entries: str | Callable[[], str],
        edits: bool = False,
        wanted: str | None = None,
        begun: Callable[[loop.Repl], None] = lambda _: None,
        **flags: Any,
    ) -> Talk:
        """`begun` gets the line interface before anything is typed."""
        source = Entries(list(entries), edits, capture=self._capsys.readouterr)

        async def run() -> loop.Repl:
            repl = loop.Repl({"model": "scripted", **flags}, plain=False)
            begun(repl)
            try:
                await repl.run(source, wanted)
            finally:
                await repl.close()
            return repl

        return Talk(asyncio.run(run()), source)
