"""An HTTP server on loopback that says exactly the bytes that a test wrote, and keeps what it was asked.

Each request is answered by the next of the scripts, the last one again and again. A script gets the connection, so it
can send half a line, wait until the client has left, or never answer at all.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60.0  # the machine may stand still for a while


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Connection:
    """What a script can do with one connection."""

    socket: socket.socket
    left: threading.Event = field(default_factory=threading.Event)  # set when the client has closed it

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def wait_until_left(self) -> None:
        self.socket.settimeout(PATIENCE_S)
        while self.socket.recv(65536):
            pass
        self.left.set()


Script = Callable[[Connection], None] | bytes


class ScriptedServer:
    """`with ScriptedServer(*scripts) as server`: `url`, the requests in `asked`, the connections in `connections`."""

    def __init__(self, *scripts: Script, host: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        self.connections: list[Connection] = []
        self._scripts = scripts
        self._lock = threading.Lock()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._serve(self)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that left in the middle of an answer is often what the test is about."""

        self._server = Server((host, 0), Handler)
        self.port: int = self._server.server_address[1]
        self.host = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.url = f"http://{self.host}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: socketserver.StreamRequestHandler) -> None:
        while (line := handler.rfile.readline().decode("latin-1")).strip():
            method, path, _ = line.split(" ", 2)
            headers = {}
            while (header := handler.rfile.readline().decode("latin-1").strip()) != "":
                name, _, value = header.partition(":")
                headers[name.lower()] = value.strip()
            body = handler.rfile.read(int(headers.get("content-length", 0)))
            connection = Connection(handler.connection)
            with self._lock:
                script = self._scripts[min(len(self.asked), len(self._scripts) - 1)]
                self.asked.append(Asked(method, path, headers, body))
                self.connections.append(connection)
            if isinstance(script, bytes):
                connection.send(script)
            else:
                script(connection)
            if not isinstance(script, bytes) or b"content-length" not in script.lower():
                return


def response(
    body: bytes | str = b"", status: str = "200 OK", content_type: str = "application/json", **headers: str
) -> bytes:
    """A whole response with a length, so that the connection is kept."""
    body = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def stream(body: bytes) -> bytes:
    """A response that ends with its connection."""
    return STREAM_HEAD + body


def events(documents: Iterable[Any], done: bool = True) -> bytes:
    """Server-sent events, each a JSON document or text as it is."""
    texts = [text if isinstance(text, str) else json.dumps(text) for text in documents]
    return "".join(f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]).encode()


def delta(**fields: Any) -> dict[str, Any]:
    """A chunk whose one choice says these fields; `finish_reason` goes beside them."""
    finish = fields.pop("finish_reason", None)
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
HELLO = [delta(role="assistant"), delta(content="Hel"), delta(content="lo."), delta(finish_reason="stop"), USAGE]
