"""Small GGUF files and a web server for the tests of the hub."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.hub.library import Library
from app.hub.records import FOLDER


def write_gguf(path: Path, tensors: Mapping[str, np.ndarray], extra: Mapping[str, int] | None = None) -> Path:
    """A readable file of no runnable architecture; `extra` are uint16 entries, such as split.no."""
    writer = gguf.GGUFWriter(path, "nothing")
    writer.add_string("general.name", "small \x1b[2J file")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "ab"])
    for key, value in (extra or {}).items():
        writer.add_uint16(key, value)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def some_tensors(count: int = 3, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {f"t{seed}.{i}": rng.standard_normal((i + 1, 3 + i)).astype(np.float32) for i in range(count)}


@dataclass
class Answer:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length claims, if not the truth
    gate: threading.Event | None = None  # the second half of the body is held back until this is set


@dataclass
class Server:
    url: str
    answers: dict[str, Answer]
    requests: list[tuple[str, Mapping[str, str]]]


@contextmanager
def serve() -> Iterator[Server]:
    """A server on this machine that gives the scripted answers and keeps the path and headers of each request."""
    state = Server("", {}, [])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append((self.path, dict(self.headers)))
            answer = state.answers.get(self.path, Answer(b"no such page", 404))
            self.send_response(answer.status)
            length = len(answer.body) if answer.length is None else answer.length
            for name, value in {"Content-Length": str(length), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            half = len(answer.body) // 2 if answer.gate else len(answer.body)
            self.wfile.write(answer.body[:half])
            if answer.gate:
                self.wfile.flush()
                answer.gate.wait()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(answer.body[half:])

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A hub of this test's own, in the place of Hugging Face."""
    with serve() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def left_in(library: Library) -> list[str]:
    """The names of everything below the models folder, but for the gathering folder and the records of good models."""
    models = {path.name for path in library.models_dir.glob("*.gguf")}
    ours = {library.incoming_dir, library.models_dir / FOLDER}
    found = [path for path in library.models_dir.rglob("*") if path not in ours]
    return sorted(p.name for p in found if not (p.parent.name == FOLDER and p.name.removesuffix(".json") in models))
