"""One stream, from its bytes to the end of the reply that it carries."""

from __future__ import annotations

from collections.abc import Callable

from app.backends.openai.events import EventParser
from app.backends.openai.reply import Reply
from app.backends.remote.answering import Pieces, let_end
from app.errors import BackendTimeoutError

AFTER_END_S = 5.0  # for the figures, once the reply has ended


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
        await let_end(arriving)
