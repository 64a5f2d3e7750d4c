"""One stream, from its bytes to the end of the reply that it carries."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from app.backends.openai.events import EventParser
from app.backends.openai.reply import Reply
from app.errors import BackendError, BackendTimeoutError

AFTER_END_S = 5.0  # for the figures, once the reply has ended
_BODY_END_S = 0.05


class Pieces(Protocol):
    """What is needed of `remote.arriving.Arriving`."""

    limit_s: float

    def began(self) -> None: ...

    async def piece(self) -> bytes: ...


async def read_stream(arriving: Pieces, reply: Reply, on_begin: Callable[[], None]) -> None:
    """Everything that the server says, up to the end of the reply or of the connection.

    Raises BackendError for an error of the server and for a reply that was cut, BackendTimeoutError.
    """
    parser = EventParser()
    while not reply.complete:
        try:
            piece = await arriving.piece()
        except BackendTimeoutError:
            if reply.ended:
                break
            raise
        for event in parser.push(piece) if piece else parser.end():
            if not reply.complete:
                reply.take(event)
        if not piece:
            break
        if reply.begun:
            on_begin()
            arriving.began()
        if reply.ended:
            arriving.limit_s = AFTER_END_S
    reply.end(parser.unframed)
    if reply.complete:
        await _let_end(arriving)


async def _let_end(arriving: Pieces) -> None:
    """Take the end of the body if it is there, which lets the connection serve the next question, too."""
    arriving.limit_s = _BODY_END_S
    with contextlib.suppress(BackendError):
        await arriving.piece()
