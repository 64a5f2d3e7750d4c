"""Kill a process that pulls a model, and see that the next pull completes it and fetches hardly anything twice."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.fast_server import serving

BYTES_PER_S = 2_000_000.0  # of one connection of the server in the suite
_PULL = """
import dataclasses, sys
from app.hub.download.gather import steered_pull
from app.hub.download.options import configured
from app.hub.library import Library
from app.hub.transfer import Steering
from app.settings import paths
options = dataclasses.replace(configured(), piece=int(sys.argv[2]))
print(flush=True)
steered_pull(sys.argv[1], Library(paths().models_dir), Steering(lambda _: None), print, options)
"""


@contextmanager
def sent_by(path: Path, body: bytes, bytes_per_s: float = BYTES_PER_S) -> Iterator[str]:
    """The URL of a server for `body`."""
    path.write_bytes(body)
    with serving(path, bytes_per_s=bytes_per_s) as url:
        yield url


def sent(url: str) -> int:
    """Bytes of bodies that the server has sent so far."""
    with urllib.request.urlopen(url.rpartition("/")[0] + "/sent") as answer:
        return int(answer.read())


def start_pull(url: str, home: Path, piece: int) -> subprocess.Popen[str]:
    """A process that pulls, past its imports."""
    environment = os.environ | {"QCHAT_HOME": str(home)}
    command = [sys.executable, "-c", _PULL, url, str(piece)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill_while_pulling(url: str, home: Path, after_s: float, piece: int) -> None:
    """Kill a pull `after_s` seconds after it began."""
    with start_pull(url, home, piece) as process:
        time.sleep(after_s)  # the moment is what is tried
        process.kill()


def sound(url: str, home: Path, body: bytes, piece: int) -> int:
    """Pull again; fails unless the file is right and no more than a piece came twice. Returns the bytes that did.

    What a killed process left in the buffers of its connections was sent and not received; that is not counted.
    """
    models = home / "data" / "models"
    final = models / "model.gguf"
    part = models / ".incoming" / "model.gguf.part"
    written = part.stat().st_blocks * 512 if part.exists() else len(body) if final.exists() else 0
    before = sent(url)
    with start_pull(url, home, piece) as process:
        assert process.wait(300) == 0
    assert hashlib.sha256(final.read_bytes()).digest() == hashlib.sha256(body).digest()
    assert list((models / ".incoming").iterdir()) == []
    twice = max(0, sent(url) - before - (len(body) - written) - 1)  # but for the byte that is asked for first
    assert twice <= piece + 4096, f"{twice:,} bytes came twice, of {written:,} that were here"
    return twice
