"""A body is read past httpx, whole and in large pieces, whatever way it comes in; only one of known length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import httpcore
import httpx
import pytest

from app.errors import NetworkError
from app.hub.download.body import READ, pieces
from app.hub.download.failures import Failure
from app.hub.download.options import Patience
from app.hub.download.transport import Address, Transport
from tests.hub.download.pulling import LONG_S
from tests.hub.download.scripted import Hub, Request, Script, running_hub, serve_file
from tests.hub.download.test_hub import CERTIFICATE, certificate

BODY = bytes(range(251)) * 4000  # about a megabyte, of which no two blocks are alike
PATH = "/x.gguf"


def received(url: str, patience: Patience | None = None) -> bytes:
    transport = Transport(patience or Patience())
    try:
        with transport.get(Address(url)) as answer:
            return b"".join(answer.pieces())
    finally:
        transport.close()


@pytest.mark.parametrize("together", [0, 1, 1000, 60_000, 70_000, len(BODY)])
def test_what_comes_with_the_headers_is_not_lost(hub: Hub, together: int) -> None:
    def script(request: Request) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
        request.send(head + BODY[:together])
        request.over.wait(0.05)  # so that the two are not read together
        request.send(BODY[together:])

    hub.scripts[PATH] = script
    assert received(hub.url + PATH) == BODY


@pytest.mark.parametrize("length", [0, 1, READ - 1, READ, READ + 1])
def test_of_a_body_its_length_is_read_and_no_more(hub: Hub, length: int) -> None:
    hub.scripts[PATH] = lambda request: request.answer(200, BODY, Content_Length=length)
    assert received(hub.url + PATH) == BODY[:length]


def test_chunks_are_never_taken_for_the_body(hub: Hub) -> None:
    """A length beside them does not count (RFC 9112, 6.3)."""

    def script(request: Request) -> None:
        request.head(200, Content_Length=len(BODY), Transfer_Encoding="chunked")
        for first in range(0, len(BODY), 10_000):
            piece = BODY[first : first + 10_000]
            request.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        request.send(b"0\r\n\r\n")

    hub.scripts[PATH] = script
    assert received(hub.url + PATH) == BODY


def ended(after: int) -> Script:
    def script(request: Request) -> None:
        request.head(200, Content_Length=len(BODY))
        request.send(BODY[:after])
        request.hang_up()

    return script


@pytest.mark.parametrize("after", [0, 1, len(BODY) - 1])
def test_a_body_that_ends_too_early_is_a_failure(hub: Hub, after: int) -> None:
    hub.scripts[PATH] = ended(after)
    with pytest.raises(Failure) as failure:
        received(hub.url + PATH)
    assert isinstance(failure.value.error, NetworkError) and not failure.value.lasting
    assert "broke" in failure.value.error.message


def test_a_connection_that_is_reset_is_a_failure(hub: Hub) -> None:
    def script(request: Request) -> None:
        request.head(200, Content_Length=len(BODY))
        request.send(BODY[:1000])
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.over.wait(0.05)  # so that what was sent is read before
        request.connection.close()

    hub.scripts[PATH] = script
    with pytest.raises(Failure, match="broke") as failure:
        received(hub.url + PATH)
    assert isinstance(failure.value.error, NetworkError)


def test_a_connection_that_is_silent_in_the_middle_is_left(hub: Hub) -> None:
    def script(request: Request) -> None:
        request.head(200, Content_Length=len(BODY))
        request.send(BODY[:1000])
        request.say_nothing()

    hub.scripts[PATH] = script
    with pytest.raises(Failure, match="did not answer in time") as failure:
        received(hub.url + PATH, Patience(connect_s=LONG_S, stall_s=0.1))
    assert failure.value.error.exit_code == 4


def test_through_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with running_hub(certificate()) as hub:
        hub.scripts[PATH] = serve_file(BODY)
        assert received(hub.url + PATH) == BODY


class Stream(httpcore.NetworkStream):
    """A connection that has all of it already."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece, self.body = self.body[:max_bytes], self.body[max_bytes:]
        return piece


def test_pieces_are_large() -> None:
    first = b"with the headers"

    class Coming(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield first
            raise AssertionError("httpx is asked for more")

    request = httpx.Request("GET", "http://h/x", extensions={"timeout": {"read": 1.0}})
    response = httpx.Response(200, stream=Coming(), extensions={"network_stream": Stream(BODY)}, request=request)
    came = list(pieces(response, len(first) + len(BODY)))
    assert b"".join(came) == first + BODY
    assert [len(piece) for piece in came[1:-1]] == [READ] * (len(BODY) // READ)
