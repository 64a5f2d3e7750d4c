"""The body of a response as it arrives, with a limit to every silence.

A fast server sends each token in a packet of its own, and waking for every one would take most of a core. So once the
reply has begun the network is looked at fifty times a second, and what gathered meanwhile comes out at once; nobody
sees the difference, and a slow server's tokens are not delayed at all.
"""

from __future__ import annotations

import asyncio

import httpx

from app.backends.remote.server import ServerSettings
from app.errors import BackendError, BackendTimeoutError

READ_EVERY_S = 0.02


class Arriving:
    """`piece` after `piece`. Until `began` is called a silence may last as long as a first token may, then `idle_s`."""

    def __init__(self, server: ServerSettings, response: httpx.Response) -> None:
        self.limit_s = server.first_token_s
        self._server = server
        self._pieces = response.aiter_bytes()
        self._begun = False
        self._next_read = 0.0  # on the clock of the loop

    def began(self) -> None:
        """The reply has begun."""
        self.limit_s = self._server.idle_s
        self._begun = True

    async def piece(self) -> bytes:
        """The next bytes; b"" at the end, be it of the body or of the connection. Raises BackendTimeoutError."""
        loop = asyncio.get_running_loop()
        early_s = self._next_read - loop.time()
        if early_s > 0:
            await asyncio.sleep(early_s)
        waited = asyncio.Event()
        loop.call_soon(waited.set)  # runs if the loop does: then the piece was not there yet and came from the network
        try:
            async with asyncio.timeout(self.limit_s):
                piece = await anext(self._pieces, b"")
            if self._begun and waited.is_set():
                self._next_read = loop.time() + READ_EVERY_S
            return piece
        except TimeoutError as error:
            raise silent(self._server, self.limit_s) from error
        except httpx.DecodingError as error:
            raise BackendError(f"{self._server.name} sent a body that cannot be unpacked: {error}") from error
        except httpx.TransportError:
            return b""

    async def all(self, most_bytes: int) -> bytes:
        """All of it. Raises BackendError where it is more than `most_bytes`, BackendTimeoutError."""
        body = bytearray()
        while piece := await self.piece():
            body += piece
            if len(body) > most_bytes:
                raise BackendError(f"{self._server.name} sent more than {most_bytes:,} bytes where less was expected")
        return bytes(body)


def silent(server: ServerSettings, seconds: float) -> BackendTimeoutError:
    """Nothing came for so long."""
    return BackendTimeoutError(f"{server.name} sent nothing for {seconds:g} s", "the server may be overloaded or stuck")
