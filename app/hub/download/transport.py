"""HTTP as downloads need it: one request for a stretch of a file, redirects followed by hand, failures sorted.

Redirects are followed here and not by httpx because three things hang on them: the token goes to the server that it is
for and never further, the hub names the file's hash on the way, and nobody leads from https to http.
Proxies and certificates are httpx's own: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import httpx

from app import __version__
from app.errors import DownloadError, DownloadTimeoutError, NetworkError, UsageError, printable
from app.hub.download import body
from app.hub.download.failures import Failure
from app.hub.download.identity import Identity, sha256_in, validators
from app.hub.download.options import Patience
from app.hub.download.spans import ContentRange, content_range
from app.hub.source import DEFAULT_ENDPOINT, endpoint

MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_STALE = frozenset({400, 401, 403, 404, 410})  # what a signed address answers when its time is over


@dataclass(frozen=True)
class Address:
    """Where a file is. `repo` is ORG/REPO if the server is the hub; `token` is for the server of `url` alone."""

    url: str
    token: str | None = field(default=None, repr=False)
    repo: str = ""

    @property
    def host(self) -> str:
        """The server, for a person, and that it is not the usual one."""
        mirror = " (HF_ENDPOINT)" if self.repo and endpoint() != DEFAULT_ENDPOINT else ""
        return (
            printable(urlsplit(self.url).netloc or self.url.partition("/")[0]) + mirror
        )  # HF_ENDPOINT without http://


@dataclass(frozen=True)
class Answer:
    """A response whose body has not been read. `length`: bytes of the body that the server announces."""

    status: int
    host: str
    headers: Mapping[str, str]
    identity: Identity
    span: ContentRange | None
    length: int | None
    _response: httpx.Response

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes. Raises Failure."""
        with _sorted_failures(self.host):
            yield from body.pieces(self._response, self.length)

    def text(self, limit: int) -> bytes:
        """The beginning of the body, up to `limit` bytes or a little more. Raises Failure."""
        text = bytearray()
        with _sorted_failures(self.host):
            for piece in self._response.iter_raw():
                text += piece
                if len(text) >= limit:
                    break
        return bytes(text)


class Transport:
    """One client for all requests of a download; its methods may be called from any thread.

    `reached`: whether a server has answered yet, whatever it said.
    """

    def __init__(self, patience: Patience) -> None:
        # Silence is noticed by whoever reads (`fetch`); the time here only ends threads that were left behind.
        timeout = httpx.Timeout(2 * patience.stall_s, connect=patience.connect_s)
        headers = {"Accept-Encoding": "identity", "User-Agent": f"qchat/{__version__}"}
        try:
            self._client = httpx.Client(timeout=timeout, headers=headers)
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            raise UsageError(
                f"the proxy settings cannot be used: {printable(str(error), 200)}",
                "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY",
            ) from error
        except OSError as error:  # ssl.SSLError is one
            raise UsageError(
                f"the certificates cannot be read: {printable(str(error), 200)}", "check SSL_CERT_FILE and SSL_CERT_DIR"
            ) from error
        self.reached = False
        self._led_to: dict[str, tuple[str, str | None]] = {}  # URL -> where its redirects ended, the hash named there

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    @contextmanager
    def get(self, address: Address, first: int | None = None, last: int | None = None) -> Iterator[Answer]:
        """Ask for the bytes first..last, to the end without `last`, for all of it without either. Raises Failure."""
        wanted = {} if first is None else {"Range": f"bytes={first}-{'' if last is None else last}"}
        with _sorted_failures(address.host):
            response, sha256 = self._ask(address, wanted)
        self.reached = True
        try:
            yield _answer(response, sha256, address)
        finally:
            response.close()

    def _ask(self, address: Address, wanted: Mapping[str, str]) -> tuple[httpx.Response, str | None]:
        if address.url in self._led_to:  # a shorter way, as long as it is open
            url, sha256 = self._led_to[address.url]
            response = self._client.send(self._client.build_request("GET", url, headers=wanted), stream=True)
            if response.status_code not in _STALE and response.status_code not in _REDIRECTS:
                return response, sha256
            response.close()
            self._led_to.pop(address.url, None)
        return self._follow(address, wanted)

    def _follow(self, address: Address, wanted: Mapping[str, str]) -> tuple[httpx.Response, str | None]:
        url, sha256 = httpx.URL(address.url), None
        authorization = {} if address.token is None else {"Authorization": f"Bearer {address.token}"}
        for _ in range(MAX_REDIRECTS + 1):
            request = self._client.build_request("GET", url, headers={**wanted, **authorization})
            response = self._client.send(request, stream=True)
            sha256 = sha256 or sha256_in(response.headers.get("x-linked-etag"))
            if response.status_code not in _REDIRECTS:
                if str(url) != address.url and not authorization and response.status_code < 400:
                    self._led_to[address.url] = (str(url), sha256)
                return response, sha256
            response.close()
            target = _target(url, response.headers.get("location"))
            if _origin(target) != _origin(url):
                authorization = {}
            url = target
        raise Failure(
            DownloadError(f"{address.host} redirects in a circle", "check the address; the server has to mend it"),
            lasting=True,
        )


def _target(url: httpx.URL, location: str | None) -> httpx.URL:
    host = printable(url.netloc.decode("ascii", "replace"))
    if not location:
        raise Failure(DownloadError(f"{host} redirects to nowhere", "the server has to mend it"), lasting=True)
    target = httpx.URL(urljoin(str(url), location))
    if target.scheme not in ("http", "https") or not target.host or target.userinfo:
        raise Failure(
            DownloadError(f"{host} redirects to {printable(location)}, which is refused", "check the address"),
            lasting=True,
        )
    if url.scheme == "https" and target.scheme == "http":
        raise Failure(
            DownloadError(
                f"{host} redirects from https to plain http at {printable(target.host)}, which is refused",
                "anyone on the way could change the file; check the address",
            ),
            lasting=True,
        )
    return target


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _answer(response: httpx.Response, sha256: str | None, address: Address) -> Answer:
    span = content_range(response.headers.get("content-range")) if response.status_code in (200, 206) else None
    text = response.headers.get("content-length", "")
    length = int(text) if text.isdecimal() and len(text) < 20 else None
    etag, modified = validators(response.headers)
    size = length if response.status_code == 200 else None if span is None else span.size
    identity = Identity(size, sha256, etag, modified)
    here = response.url.netloc.decode("ascii", "replace")
    host = address.host if here == urlsplit(address.url).netloc else printable(here)
    return Answer(response.status_code, host, response.headers, identity, span, length, response)


@contextmanager
def _sorted_failures(host: str) -> Iterator[None]:
    """Turns what httpx raises into a Failure that says what it was."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Failure(
            DownloadTimeoutError(f"{host} did not answer in time", "check the network, or try again later")
        ) from error
    except httpx.ProxyError as error:
        raise Failure(
            NetworkError(
                f"the proxy on the way to {host} refused: {printable(str(error), 160)}",
                "check HTTPS_PROXY and HTTP_PROXY (http://user:password@host:port); NO_PROXY names hosts without one",
            ),
            lasting=True,
        ) from error
    except httpx.TransportError as error:
        raise _transport_failure(host, error) from error
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise Failure(
            DownloadError(f"{host} cannot be asked: {printable(str(error), 160)}", "check the address"), lasting=True
        ) from error


def _transport_failure(host: str, error: httpx.TransportError) -> Failure:
    reason = printable(str(error) or type(error).__name__, 160)
    if isinstance(error, httpx.UnsupportedProtocol):
        return Failure(DownloadError(f"{host}: {reason}", "write http:// or https://"), lasting=True)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return Failure(
            NetworkError(
                f"the certificate of {host} is not trusted: {reason}",
                "if your network has certificates of its own, name their file in SSL_CERT_FILE",
            ),
            lasting=True,
        )
    if isinstance(error, httpx.ConnectError):
        return Failure(NetworkError(f"{host} cannot be reached: {reason}", "check the network and try again"))
    return Failure(NetworkError(f"the connection to {host} broke: {reason}", "check the network and try again"))
