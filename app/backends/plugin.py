"""A backend of somebody else's package, kept from taking the program down with it.

What it raises beyond the QChatErrors that the protocol allows becomes a BackendError that names the plugin, with the
original as its cause for the log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from app.backends.base import Backend, ChatRequest, Done, Event, PromptPiece
from app.errors import BackendError, QChatError, printable

_NEEDED = ("model", "facts", "models", "chat", "prompt", "close")


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Errors in here are the plugin's: what is no QChatError becomes a BackendError with its name."""
    try:
        yield
    except QChatError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {printable(str(error), 200)}"
        raise BackendError(f"the plugin {printable(name)} failed: {what}", "QCHAT_DEBUG=1 shows where") from error


class Guarded:
    """`backend` as the installed plugin `name`; its own errors are BackendErrors."""

    def __init__(self, backend: Backend, name: str) -> None:
        """Raises BackendError for what is no backend."""
        missing = [part for part in _NEEDED if not hasattr(backend, part)]
        if missing:
            raise BackendError(
                f"the plugin {printable(name)} opened no backend: it has no {', '.join(missing)}",
                "docs/plugins.md has the protocol",
            )
        self.name = name
        self._backend = backend

    @property
    def model(self) -> str:
        """The model that answers."""
        return str(self._backend.model)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `--stats` tells about it."""
        return dict(self._backend.facts)

    async def models(self) -> Sequence[str]:
        """See `Backend.models`."""
        with blaming(self.name):
            return [str(model) for model in await self._backend.models()]

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """See `Backend.chat`. A reply without its `Done` is a failure, too: nobody could tell how it ended."""
        done = False
        with blaming(self.name):
            async with aclosing(self._backend.chat(request)) as events:
                async for event in events:
                    done = done or isinstance(event, Done)
                    yield event
        if not done:
            raise BackendError(f"the plugin {printable(self.name)} ended a reply without saying how it ended")

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        """See `Backend.prompt`."""
        with blaming(self.name):
            return await self._backend.prompt(request)

    async def close(self) -> None:
        """See `Backend.close`."""
        with blaming(self.name):
            await self._backend.close()
