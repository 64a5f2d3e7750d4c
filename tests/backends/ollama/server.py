"""A scripted Ollama, built from docs/api.md and server/routes.go of github.com/ollama/ollama, that can also misbehave.

It checks a request as the real one does (an unknown model is 404, `think` on a model that cannot is 400, a conversation
that is too long is refused where `truncate` is false and shortened in silence where it is not), and answers with what a
test has scripted, in pieces cut wherever the test wants.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CUT = object()  # in a script: the connection ends here, in the middle of the body
WAIT = object()  # in a script: say nothing more until the client has gone
CREATED = "2026-11-30T12:00:00.000000Z"


@dataclass
class Model:
    """One model of the server; `words` count as its tokens."""

    name: str = "qwen3:8b"
    thinks: bool = True
    context: int = 40  # words
    tells_capabilities: bool = True  # old servers do not


@dataclass
class FakeOllama:
    """What the server has and says, and what it was asked. `script`: bytes to send as they are, in place of a reply."""

    models: list[Model] = field(default_factory=lambda: [Model()])
    thinking: str = "Let me see."
    answer: str = "Blue, by Rayleigh scattering."
    calls: Sequence[dict[str, Any]] = ()
    script: Iterable[Any] | None = None
    refuse: tuple[int, bytes] | None = None  # status and body, in place of any answer to /api/chat
    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)  # the client went while WAIT lasted

    def asked(self, path: str) -> list[Any]:
        """The bodies that came to `path`, in order."""
        return [body for asked, body in self.requests if asked == path]


@contextmanager
def serving(ollama: FakeOllama) -> Iterator[FakeOllama]:
    """`ollama` on a free port of this machine."""

    class Handler(_Handler):
        scripted = ollama

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    ollama.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield ollama
    finally:
        server.shutdown()
        server.server_close()


def line(message: dict[str, Any], **fields: Any) -> bytes:
    """One line of a reply."""
    document = {"model": "qwen3:8b", "created_at": CREATED, "message": {"role": "assistant", "content": "", **message}}
    return json.dumps(document | {"done": False} | fields).encode() + b"\n"


def last(reason: str = "stop", tokens: int = 5) -> bytes:
    """The line that ends a reply, with what it took."""
    measured = {
        "total_duration": 4_883_583_458,
        "load_duration": 1_334_875,
        "prompt_eval_count": 26,
        "prompt_eval_duration": 250_000_000,
        "eval_count": tokens,
        "eval_duration": 500_000_000,
    }
    return line({}, done=True, done_reason=reason, **measured)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: FakeOllama

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._note(None)
        if self.path == "/api/tags":
            self._json(200, {"models": [self._tag(model) for model in self.scripted.models]})
        else:
            self._text(404, b"404 page not found")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._note(body)
        model = next((model for model in self.scripted.models if model.name == body.get("model")), None)
        if self.path not in ("/api/chat", "/api/show"):
            self._text(404, b"404 page not found")
        elif model is None:
            self._json(404, {"error": f"model '{body.get('model')}' not found"})
        elif self.path == "/api/show":
            self._json(200, self._shown(model))
        else:
            self._chat(model, body)

    def _chat(self, model: Model, body: dict[str, Any]) -> None:
        fake = self.scripted
        if fake.refuse:
            self._text(*fake.refuse)
            return
        if body.get("think") and not model.thinks:
            self._json(400, {"error": f'"{model.name}" does not support thinking'})
            return
        words = " ".join(message["content"] for message in body["messages"]).split()
        if len(words) > model.context and body.get("truncate") is False:
            self._json(400, {"error": "the input length exceeds the context length"})
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self._reply(model, body) if fake.script is None else fake.script:
            if piece is CUT:
                self.close_connection = True
                self.connection.close()
                return
            if piece is WAIT:
                self.connection.settimeout(60)
                if self.connection.recv(1) == b"":
                    fake.gone.set()
                self.close_connection = True
                return
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _reply(self, model: Model, body: dict[str, Any]) -> Iterator[bytes]:
        """A token a line, as far as `num_predict` allows."""
        fake = self.scripted
        limit = body.get("options", {}).get("num_predict", -1)
        thinking = fake.thinking.split(" ") if model.thinks and body.get("think", True) else []
        tokens = [("thinking", word) for word in thinking] + [("content", word) for word in fake.answer.split(" ")]
        allowed = tokens if limit < 0 else tokens[:limit]
        for number, (part, word) in enumerate(allowed):
            first = number == 0 or allowed[number - 1][0] != part
            yield line({part: word if first else f" {word}"})
        if fake.calls and len(allowed) == len(tokens):
            yield line({"tool_calls": [{"function": call} for call in fake.calls]})
        yield last("stop" if len(allowed) == len(tokens) else "length", len(allowed))

    def _tag(self, model: Model) -> dict[str, Any]:
        details = {"parent_model": "", "format": "gguf", "family": "qwen3", "quantization_level": "Q4_K_M"}
        return {
            "name": model.name,
            "model": model.name,
            "modified_at": CREATED,
            "size": 5_225_376_047,
            "details": details,
        }

    def _shown(self, model: Model) -> dict[str, Any]:
        info = {"general.architecture": "qwen3", "qwen3.context_length": 40_960}
        shown = {"license": "Apache", "template": "...", "details": self._tag(model)["details"], "model_info": info}
        thinking = ["thinking"] if model.thinks else []
        return shown | ({"capabilities": ["completion", *thinking]} if model.tells_capabilities else {})

    def _note(self, body: Any) -> None:
        self.scripted.requests.append((self.path, body))
        self.scripted.headers.append({name.lower(): value for name, value in self.headers.items()})

    def _json(self, status: int, document: Any) -> None:
        self._text(status, json.dumps(document).encode(), "application/json; charset=utf-8")

    def _text(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
