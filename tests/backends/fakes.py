"""Scripted stand-ins for what lies below: a network that says what the test wrote, and a backend of fixed events.

The scripted model has a real tokenizer (one token a byte, and Qwen's control tokens) under the real generator, so only
the network itself is made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from app.backends.base import ChatRequest, Done, Event, FinishReason, PromptPiece, Usage
from app.chat.conversation import openai_message
from app.chat.turn import Reply
from app.engine.decoder import Interrupted
from app.engine.tokenizer import Tokenizer
from app.settings import SamplingSettings
from app.templates.guard import Segment
from tests.templates.templates import THINKER

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
END = "<|im_end|>"
UNSET = SamplingSettings(0.0, *[None] * 7)  # greedy, the rest is the model's
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4


def byte_metadata(template: str | None = THINKER) -> dict[str, Any]:
    """The metadata of a qwen3 file whose vocabulary is the 256 bytes, `CONTROL` and `MARKUP`."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(plain))
    alphabet = [*map(chr, plain), *(chr(256 + n) for n in range(len(others)))]
    metadata = {
        "general.architecture": "qwen3",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [*alphabet, *CONTROL, *MARKUP],
        "tokenizer.ggml.token_type": [_NORMAL] * 256 + [_CONTROL] * len(CONTROL) + [_USER_DEFINED] * len(MARKUP),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.add_bos_token": False,
    }
    return metadata | ({"tokenizer.chat_template": template} if template else {})


class ScriptedDecoder:
    """Draws the ids of one script after the other, a script for each prompt; `on_step` runs inside every step."""

    spec: Any = None

    def __init__(self, scripts: Iterable[Sequence[int]], vocab: int, n_ctx: int, on_step: Callable[[], None]) -> None:
        self.n_ctx = n_ctx
        self.chunk = 16
        self.prompts: list[list[int]] = []
        self.interrupted = False
        self._scripts = iter(scripts)
        self._script: Sequence[int] = ()
        self._cache: list[int] = []
        self._drawn = 0
        self._vocab = vocab
        self._on_step = on_step

    @property
    def length(self) -> int:
        return len(self._cache)

    def truncate(self, length: int) -> None:
        """The generator calls this once for every prompt."""
        del self._cache[length:]
        self._script, self._drawn = next(self._scripts), 0

    def forward(self, tokens: Sequence[int], n_logits: int) -> np.ndarray:
        self._on_step()
        if self.interrupted:
            self.interrupted = False
            raise Interrupted
        self._cache += tokens
        logits = np.zeros((n_logits, self._vocab), np.float32)
        if n_logits:
            if self._drawn == 0:
                self.prompts.append(list(self._cache))
            logits[-1, self._script[self._drawn % len(self._script)]] = 1
            self._drawn += 1
        return logits

    def interrupt(self) -> None:
        self.interrupted = True


class ScriptedModel:
    """What `load_model` gives, saying the `replies` in turn; each ends itself unless `endless`.

    Tags in the replies are single tokens, or `spelled` letter by letter.
    """

    load_s = 0.25
    device = "cpu"
    isa = "scripted"
    threads = 1
    kv = "f16"
    resident_bytes = 1000
    notes = ("a note",)

    def __init__(
        self,
        *replies: str,
        template: str | None = THINKER,
        n_ctx: int = 4096,
        endless: bool = False,
        spelled: bool = False,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.gguf = SimpleNamespace(metadata=byte_metadata(template))
        self.tokenizer = Tokenizer.from_metadata(self.gguf.metadata)
        end = [] if endless else self.ids(END)
        scripts = [(self.tokenizer.encode_text(reply) if spelled else self.ids(reply)) + end for reply in replies]
        self.decoder = ScriptedDecoder(scripts, self.tokenizer.vocab_size, n_ctx, on_step)
        self.closed = False

    def ids(self, text: str) -> list[int]:
        """The ids of text in which control tokens are real."""
        return self.tokenizer.encode([Segment(text, trusted=True)])

    def close(self) -> None:
        self.closed = True


class FakeBackend:
    """Sends the same events to every chat, an exception among them is raised, then `Done` unless `endless`."""

    name = "fake"
    model = "fake:1b"

    def __init__(
        self,
        *events: Event | BaseException,
        reason: FinishReason = "stop",
        usage: Usage | None = None,
        endless: bool = False,
    ) -> None:
        self.facts = {"load_s": 0.5, "isa": "none", "notes": ["the head was requantised"]}
        self.requests: list[ChatRequest] = []
        self.closed_chats = 0
        self.closed = False
        self._events = events
        self._endless = endless
        self._done = Done(reason, usage or Usage(prompt_tokens=3, generated_tokens=2), [1, 2, 3], [4, 5])

    async def models(self) -> Sequence[str]:
        return [self.model]

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        try:
            for event in self._events:
                if isinstance(event, BaseException):
                    raise event
                yield event
            if self._endless:
                await asyncio.Event().wait()
            yield self._done
        finally:
            self.closed_chats += 1

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        return ()

    async def close(self) -> None:
        self.closed = True


def message_of(reply: Reply) -> dict[str, Any]:
    """The reply as a message of the next request."""
    return openai_message("assistant", reply.answer, reply.thinking, reply.tool_calls)
