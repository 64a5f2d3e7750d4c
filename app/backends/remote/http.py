"""HTTP to one server: its proxy and certificates, the limits of each stage, retries where they are safe.

Whatever goes wrong comes out as an error for a person: BackendError (exit code 3) or BackendTimeoutError (4). Nothing
is sent again once a response has begun, and no redirect is followed, so a key never reaches another host.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

import httpx

from app import __version__
from app.backends.remote.arriving import Arriving, silent
from app.backends.remote.failure import Failure, refused, said
from app.backends.remote.retry import BUSY, LONGEST_PAUSE_S, LOST_PAUSE_S, TRIES, asked_pause, pause_before
from app.backends.remote.server import ServerSettings
from app.backends.remote.url import ServerUrl
from app.errors import BackendError, BackendTimeoutError, SettingsError, printable

_MOST_BYTES = 8 << 20  # of a body that is read as a whole
_MOST_FAILURE_BYTES = 256 << 10
_HEADER_TEXT = re.compile(r"[\x20-\x7e]*")
_IS_IT_THERE = "is the server running, and the address right?"
_PROXY_HINT = "the proxy comes from HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; NO_PROXY lists hosts that need none"

OnPause = Callable[[str, float], None]
"""Called with (why, seconds) before a request is sent again."""


class ServerClient:
    """For one event loop. `close` gives the connections back."""

    def __init__(self, server: ServerSettings, url: ServerUrl) -> None:
        """Raises SettingsError for headers that cannot be sent, BackendError for a proxy that cannot be used."""
        self.server = server
        self.url = url
        self._client = new_client(server, url)

    async def close(self) -> None:
        """End every connection."""
        await self._client.aclose()

    async def get(self, path: str) -> bytes:
        """The body of `path` below the server's address. Raises as `stream` does."""
        async with self.stream("GET", path) as arriving:
            return await arriving.all(_MOST_BYTES)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: bytes | None = None, on_pause: OnPause | None = None
    ) -> AsyncIterator[Arriving]:
        """The body of the response to one request. At the end of the block the connection of an unread one is closed.

        Raises BackendError, BackendTimeoutError, and RefusedError for a status that is no success.
        """
        response = await self._answered(method, path, body, on_pause or (lambda _why, _seconds: None))
        async with aclosing(response):
            yield Arriving(self.server, response)

    async def _answered(self, method: str, path: str, body: bytes | None, on_pause: OnPause) -> httpx.Response:
        """The first response that is a success, after at most TRIES requests."""
        lost = False
        for tried in range(1, TRIES + 1):
            try:
                response = await self._send(method, path, body)
            except httpx.TransportError as error:
                if lost or tried == TRIES or not _worth_another_try(error):
                    raise self._failed(error, path) from error
                lost = True
                on_pause("no connection", LOST_PAUSE_S)
                await asyncio.sleep(LOST_PAUSE_S)
                continue
            if response.is_success:
                return response
            failure = await self._failure(response)
            pause = pause_before(failure.retry_after_s, tried)
            if failure.status not in BUSY or tried == TRIES or pause > LONGEST_PAUSE_S:
                raise refused(self.server, failure, self.url.shown(path))
            on_pause(f"busy ({failure.status})", pause)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _send(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = self._client.build_request(method, self.url.request(path), content=body, headers=headers)
        limit_s = self.server.connect_s + self.server.first_token_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._client.send(request, stream=True)
        except TimeoutError as error:
            raise silent(self.server, limit_s) from error

    async def _failure(self, response: httpx.Response) -> Failure:
        """What the response says, as far as it can be read."""
        retry_after_s = asked_pause(response.headers.get("retry-after", ""))
        location = response.headers.get("location", "")
        try:
            async with aclosing(response):
                body = await Arriving(self.server, response).all(_MOST_FAILURE_BYTES)
        except BackendError:
            body = b""  # the status alone says what is known
        return Failure(response.status_code, body.decode("utf-8", "replace"), location, retry_after_s)

    def _failed(self, error: httpx.TransportError, path: str) -> BackendError:
        server, where = self.server, self.url.shown(path)
        why = said(server, _why(error))
        if isinstance(error, httpx.ConnectTimeout):
            return BackendTimeoutError(
                f"{server.name} did not answer within {server.connect_s:g} s: {where}", _IS_IT_THERE
            )
        if isinstance(error, httpx.ProxyError):
            return BackendError(f"{server.name} cannot be reached through the proxy: {why}", _PROXY_HINT)
        if isinstance(error, httpx.ConnectError):
            untrusted = "certificate" in why.lower()
            hint = (
                "SSL_CERT_FILE names the certificates to trust in place of the usual ones"
                if untrusted
                else _IS_IT_THERE
            )
            return BackendError(f"{server.name} cannot be reached at {where}: {why}", hint)
        return BackendError(f"{server.name} did not answer the request to {where}: {why}", _IS_IT_THERE)


def new_client(server: ServerSettings, url: ServerUrl) -> httpx.AsyncClient:
    """A client that sends the server's headers. Raises as `ServerClient` does."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its INFO lines hold whole addresses, which may carry a key
    try:
        return httpx.AsyncClient(
            headers={"User-Agent": f"qchat/{__version__}", "Accept-Encoding": "identity", **_headers(server)},
            timeout=httpx.Timeout(None, connect=server.connect_s),  # silence is limited by stage, see `Arriving`
            verify=_certificates(url),
            trust_env=False,
            proxy=_proxy(url),
        )
    except (ValueError, ImportError, httpx.InvalidURL) as error:  # an unknown kind of proxy; SOCKS without its package
        raise BackendError(
            f"the proxy for {server.name} cannot be used: {printable(str(error), 200)}", _PROXY_HINT
        ) from error


def _headers(server: ServerSettings) -> Mapping[str, str]:
    headers = {name: secret.reveal() for name, secret in server.headers.items()}
    if server.key is not None and "authorization" not in map(str.lower, headers):
        headers["Authorization"] = f"Bearer {server.key.reveal()}"
    for name, value in headers.items():
        if not _HEADER_TEXT.fullmatch(value):
            what = "key" if name == "Authorization" else f"header {printable(name)}"
            raise SettingsError(f"the {what} of {server.name} holds a character that no header can carry")
    return headers


def _certificates(url: ServerUrl) -> ssl.SSLContext:
    """The certificates to trust; without TLS none are loaded, which takes longer than a small answer."""
    return httpx.create_ssl_context() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _proxy(url: ServerUrl) -> str | None:
    """The proxy of the environment for this server. A proxy that other servers need cannot disturb this one."""
    host = url.host if url.port is None else f"{url.host}:{url.port}"
    if url.loopback or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _worth_another_try(error: httpx.TransportError) -> bool:
    """Refused, as by a server that is being started again, or a kept connection that the server had just closed."""
    if isinstance(error, httpx.ConnectError):
        return isinstance(_root(error), ConnectionError)
    return isinstance(error, (httpx.ReadError, httpx.WriteError)) or "without sending a response" in str(error)


def _root(error: BaseException) -> BaseException:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return error


def _why(error: httpx.TransportError) -> str:
    """The system's own words for what went wrong below."""
    root = _root(error)
    if isinstance(root, OSError) and root.errno and root.errno > 0 and not isinstance(root, ssl.SSLError):
        return os.strerror(root.errno)
    return str(root) or str(error) or type(error).__name__
