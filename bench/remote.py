"""What a stream from a server costs `qchat ask`: the processor time of its process while tokens arrive.

    python bench/remote.py [--rate 2000] [--seconds 5] [--repetitions 3] [--json FILE]

The server is a process of its own on loopback. It sends each token in a packet of its own, as llama-server does, at an
even rate. What a reply of one token costs, mostly starting Python, is measured in turn and subtracted. The share is of
one core; "kept up" tells the seconds that the whole took, which are --seconds where nothing fell behind.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORD = "token"


@dataclass(frozen=True)
class Run:
    """Seconds."""

    processor: float
    wall: float


def chunk(document: object) -> bytes:
    """One event in a piece of its own."""
    data = f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def content(text: str, finish_reason: str | None = None) -> dict[str, object]:
    """A chunk of about the size that llama-server sends."""
    return {
        "choices": [{"finish_reason": finish_reason, "index": 0, "delta": {"content": text} if text else {}}],
        "created": 1796048650,
        "id": "chatcmpl-fq52I9LG6d8piWekFSFLtACNHZMRXn1Z",
        "model": "a-model-of-some-name-q4_k_m.gguf",
        "system_fingerprint": "b0-unknown",
        "object": "chat.completion.chunk",
    }


def serve(rate: float) -> None:
    """Answer every question with as many tokens as its `max_tokens` says. Prints its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answer(connection, rate)


def answer(connection: socket.socket, rate: float) -> None:
    """One reply, each token when it is due."""
    request = connection.makefile("rb")
    length = 0
    while (line := request.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    tokens = json.loads(request.read(length))["max_tokens"]
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    started = time.perf_counter()
    for i in range(tokens):
        early = started + i / rate - time.perf_counter()
        if early > 0:
            time.sleep(early)
        connection.sendall(chunk(content(f"{WORD} ")))
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}
    connection.sendall(chunk(content("", "stop")) + chunk(usage) + chunk("[DONE]") + b"0\r\n\r\n")


@contextmanager
def server(rate: float) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(rate)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


def ask(home: Path, tokens: int) -> Run:
    """`qchat ask` for a reply of so many tokens, into a pipe."""
    environment = os.environ | {"QCHAT_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "app", "ask", "-m", "bench/m", "--max-tokens", str(tokens), "--no-stdin", "hi"]
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if status or said.split() != [WORD.encode()] * tokens:
        raise SystemExit(f"ask ended with {os.waitstatus_to_exitcode(status)} and {len(said.split())} tokens")
    return Run(used.ru_utime + used.ru_stime, wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=2000.0, help="tokens a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of streaming")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tokens = round(options.rate * options.seconds)
    long: list[Run] = []
    short: list[Run] = []
    with tempfile.TemporaryDirectory() as folder, server(options.rate) as url:
        home = Path(folder)
        (home / "config.toml").write_text(f'[servers.bench]\nkind = "openai"\nurl = "{url}"\n')
        ask(home, 1)
        for _ in range(options.repetitions):
            short.append(ask(home, 1))
            long.append(ask(home, tokens))
    start_s = statistics.median(run.processor for run in short)
    stream_s = statistics.median(run.processor for run in long) - start_s
    wall_s = statistics.median(run.wall for run in long) - statistics.median(run.wall for run in short)
    share = 100 * stream_s / options.seconds
    print(
        f"{tokens:,} tokens at {options.rate:,.0f} a second: {share:.1f} % of a core, "
        f"{1e6 * stream_s / tokens:.0f} µs a token; kept up: {wall_s:.2f} s; a reply of one token: {start_s:.2f} s"
    )
    if options.json:
        options.json.write_text(json.dumps({"long": [asdict(r) for r in long], "short": [asdict(r) for r in short]}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(float(sys.argv[2]))
    else:
        main()
