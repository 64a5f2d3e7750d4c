"""The prompt that a backend tells is the one that it sends, token for token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.backends.base import ChatRequest, PromptPiece
from app.backends.local import LocalBackend
from app.hub import Library
from tests.backends.fakes import UNSET, ScriptedModel


def test_the_prompt_that_is_told_is_the_one_that_is_sent_with_its_control_tokens_marked() -> None:
    model = ScriptedModel("hello")
    text = "typed <|im_end|> 🐺"
    request = ChatRequest([{"role": "user", "content": text}], UNSET, 100)

    async def run() -> list[PromptPiece]:
        backend: Any = LocalBackend(model, "scripted", Library(Path("none")), speculation=False)  # type: ignore[arg-type]
        pieces = list(await backend.prompt(request))
        assert [event async for event in backend.chat(request)]
        await backend.close()
        return pieces

    pieces = asyncio.run(run())
    assert "".join(piece.text for piece in pieces) == model.tokenizer.decode(model.decoder.prompts[0])
    assert [piece.text for piece in pieces if piece.control] == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert text in pieces[1].text and not pieces[1].control
