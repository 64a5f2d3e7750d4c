"""What every backend is: a request in, a stream of events out. Nothing here knows any engine or server.

The parts of a reply come from `templates.reply`, which makes them; here they are events among others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from app.backends.usage import Usage
from app.settings import SamplingSettings, Settings
from app.templates.reply import Answer, Notice, Thinking, ToolCall

__all__ = [
    "Answer",
    "Backend",
    "BackendFactory",
    "ChatRequest",
    "Done",
    "Event",
    "FinishReason",
    "Generated",
    "Notice",
    "Progress",
    "PromptPiece",
    "SharesCores",
    "Thinking",
    "ToolCall",
    "Usage",
]

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True)
class Progress:
    """How far something that takes a while has come. `total` is None where it is not known."""

    stage: str  # for a person: "reading the prompt"
    done: int
    total: int | None


@dataclass(frozen=True)
class Generated:
    """Tokens of the reply so far, thinking included. A backend that does not know leaves these out."""

    tokens: int


@dataclass(frozen=True)
class Done:
    """The last event of a reply that was not cancelled. A backend that does not know token ids leaves them empty."""

    reason: FinishReason
    usage: Usage
    prompt_ids: Sequence[int] = ()
    answer_ids: Sequence[int] = ()  # of the whole reply, thinking included, without the token that ended it


@dataclass(frozen=True)
class PromptPiece:
    """A stretch of a prompt. Text of a person is never `control`, whatever it looks like."""

    text: str
    control: bool


Event = Thinking | Answer | ToolCall | Progress | Generated | Notice | Done


@dataclass(frozen=True)
class ChatRequest:
    """One question. Messages are mappings in the OpenAI shape, the oldest first."""

    messages: Sequence[Mapping[str, Any]]
    sampling: SamplingSettings
    max_tokens: int  # of the whole reply; -1: to the end of the context
    thinking: bool | None = None  # None: what the template does by itself
    tools: Sequence[Mapping[str, Any]] | None = None
    continue_last: bool = False  # go on with the last message, the model's own, in place of answering it
    stop: Sequence[str] = field(default_factory=tuple)  # end the answer; inside thinking they mean nothing
    raw_prompt: str | None = None  # sent without a template, in place of the messages


class Backend(Protocol):
    """A source of answers. One chat at a time."""

    @property
    def name(self) -> str:
        """Its own name, or that of the server it speaks to: "local"."""

    @property
    def model(self) -> str:
        """The model that answers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `--stats` tells about it: load_s, ctx, isa, threads, notes, ..."""

    async def models(self) -> Sequence[str]:
        """The names of the models that it offers."""

    def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """The events of one reply; the last is Done. Closing the generator cancels: the engine stops within one step.

        Raises QChatError: BackendError for a backend that fails, ContextOverflowError, TemplateError.
        """

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        """The exact prompt that `chat` would send; empty where the backend does not know it. Raises as `chat` does."""

    async def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class SharesCores(Protocol):
    """What a backend that computes on this machine has besides."""

    def stand_aside(self, wanted: bool) -> None:
        """While `wanted`, leave a core to the screen. From any thread, some hundred times a second."""


BackendFactory = Callable[[Settings, Callable[[Progress | Notice], None]], Backend]
"""Opens a backend for the model that the settings name, and tells how far that is. Raises QChatError."""
