"""A server for measurements of downloads: one file, ranges, the kernel's sendfile, and a count of what it sent.

It runs in a process of its own, so that it shares no interpreter with what is measured, and tells the sha256 as the
Hugging Face hub does.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np


def write_model(path: Path, megabytes: int) -> Path:
    """A readable GGUF file of about that size, with nothing in it that could be packed."""
    writer = gguf.GGUFWriter(path, "nothing")
    values = np.random.default_rng(1).integers(0, 2**31, (megabytes * 250, 1000), dtype=np.int32)
    writer.add_tensor("t", values.view(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextmanager
def serving(path: Path, *, cores: set[int] | None = None, bytes_per_s: float = 0.0) -> Iterator[str]:
    """The URL at which another process serves `path`; a GET of /sent tells how many bytes it sent."""
    pinned = [] if cores is None else ["taskset", "-c", ",".join(map(str, sorted(cores)))]
    command = [*pinned, sys.executable, "-m", "bench.fast_server", str(path), str(bytes_per_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/model.gguf"
        finally:
            process.kill()


class _Server:
    def __init__(self, path: Path, bytes_per_s: float) -> None:
        self._file = path.open("rb")
        self._size = path.stat().st_size
        self._sha256 = hashlib.file_digest(self._file, "sha256").hexdigest()
        self._rate = bytes_per_s
        self._sent = 0
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                while head := self._read_head(connection):
                    if head.startswith("GET /sent "):
                        self._answer_sent(connection)
                    else:
                        self._answer(connection, head)
        except OSError:
            return  # the client is gone

    def _read_head(self, connection: socket.socket) -> str:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (data := connection.recv(65536)):
                return ""
            head += data
        return head.decode()

    def _answer_sent(self, connection: socket.socket) -> None:
        body = str(self._sent).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    def _answer(self, connection: socket.socket, head: str) -> None:
        found = re.search(r"range: bytes=(\d+)-(\d*)", head, re.IGNORECASE)
        first = int(found[1]) if found else 0
        stop = min(int(found[2]) + 1, self._size) if found and found[2] else self._size
        status = f"206 Partial Content\r\nContent-Range: bytes {first}-{stop - 1}/{self._size}" if found else "200 OK"
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {stop - first}", f'X-Linked-ETag: "{self._sha256}"']
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        while first < stop:
            most = min(stop - first, 1 << 18) if self._rate else stop - first
            sent = os.sendfile(connection.fileno(), self._file.fileno(), first, most)
            first += sent
            with self._lock:
                self._sent += sent
            if self._rate:
                time.sleep(sent / self._rate)


def main(path: Path, bytes_per_s: float) -> None:
    server = _Server(path, bytes_per_s)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
