"""A server that does exactly what a test wants, down to the byte at which it hangs up.

A script is called for each request and writes the answer itself. `serve_file` is the script of a good server; the
others are made by changing what it does.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

Script = Callable[["Request"], None]
FOREVER_S = 240.0  # for which a silent server stays silent, unless the test ends before


@dataclass
class Request:
    """One request, and the connection to answer on. `number` counts the requests of this path from 0."""

    method: str
    path: str
    headers: Mapping[str, str]
    number: int
    connection: socket.socket
    over: threading.Event

    @property
    def range(self) -> tuple[int, int | None] | None:
        """(first, last) as the Range header has it."""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def head(self, status: int, **headers: object) -> None:
        """The status line and headers; underscores in names are dashes."""
        lines = [f"HTTP/1.1 {status} Some Reason"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode())

    def answer(self, status: int, body: bytes = b"", **headers: object) -> None:
        """A whole answer with the true length, unless `headers` says another."""
        self.head(status, **{"Content_Length": len(body), **headers})
        if self.method != "HEAD":
            self.send(body)

    def hang_up(self) -> None:
        """Close the connection now, without a word."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def say_nothing(self) -> None:
        """Keep the connection and send nothing more."""
        self.over.wait(FOREVER_S)


@dataclass
class Hub:
    """The server at `url`. `requests` are all that came, in order."""

    url: str
    scripts: dict[str, Script] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    def count(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def stretch(request: Request, body: bytes) -> tuple[int, int]:
    """[first, stop) of what is asked for."""
    first, last = request.range or (0, None)
    return first, len(body) if last is None else min(last + 1, len(body))


def serve_file(body: bytes, **headers: object) -> Script:
    """What a good server does, with an entity tag unless `headers` has ETag=None."""
    extra = {"ETag": f'"{sha256(body)[:16]}"', **headers}
    extra = {name: value for name, value in extra.items() if value is not None}

    def script(request: Request) -> None:
        if request.method != "GET":
            request.answer(405)
        elif request.range is None:
            request.answer(200, body, Accept_Ranges="bytes", **extra)
        else:
            first, stop = stretch(request, body)
            if first >= len(body):
                request.answer(416, Content_Range=f"bytes */{len(body)}", **extra)
            else:
                request.answer(206, body[first:stop], Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", **extra)

    return script


def serve_whole(body: bytes, **headers: object) -> Script:
    """A server that knows no ranges."""
    return lambda request: request.answer(200, body, **{"ETag": f'"{sha256(body)[:16]}"', **headers})


def cut(request: Request, body: bytes, after: int, **headers: object) -> None:
    """Promise what is asked for, send `after` bytes of it and hang up."""
    first, stop = stretch(request, body)
    tag = {"ETag": f'"{sha256(body)[:16]}"', **headers}
    if request.range is None:
        request.head(200, Content_Length=len(body), **tag)
    else:
        span = f"bytes {first}-{stop - 1}/{len(body)}"
        request.head(206, Content_Length=stop - first, Content_Range=span, **tag)
    request.send(body[first:stop][:after])
    request.hang_up()


def is_probe(request: Request) -> bool:
    """Whether it is the one byte that a download asks for first."""
    return request.range == (0, 0)


def after_probe(then: Script, body: bytes, times: int | None = None) -> Script:
    """The good server, but for the first `times` requests after the probe, or all of them, which `then` answers."""
    asked = 0
    lock = threading.Lock()
    good = serve_file(body)

    def script(request: Request) -> None:
        nonlocal asked
        if is_probe(request):
            good(request)
            return
        with lock:
            asked += 1
            mine = times is None or asked <= times
        (then if mine else good)(request)

    return script


@contextmanager
def running_hub(context: ssl.SSLContext | None = None) -> Iterator[Hub]:
    """A server on this machine; without a script for a path it answers 404."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listening.getsockname()[1]
    hub = Hub(f"{'https' if context else 'http'}://127.0.0.1:{port}")
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            with connection:
                while (head := _read_head(connection)) is not None:
                    _answer(hub, head, connection, over)

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            hub.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield hub
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _read_head(connection: socket.socket) -> str | None:
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(65536)
        if not data:
            return None
        head += data
    return head.decode("latin-1")


def _answer(hub: Hub, head: str, connection: socket.socket, over: threading.Event) -> None:
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    request = Request(method, path, headers, hub.count(path), connection, over)
    hub.requests.append(request)
    hub.scripts.get(path.partition("?")[0], lambda request: request.answer(404, b"no such page"))(request)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub of this test's own, in the place of Hugging Face."""
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.fixture
def other_host() -> Iterator[Hub]:
    """A second server: to a client, another host."""
    with running_hub() as running:
        yield running
