"""Kill a process that pulls a model at random moments, again and again, and let the next pull complete it each time.

    python -m bench.kill_download [ROUNDS] [MEGABYTES] [MEGABYTES_A_SECOND]

Fails if a file is not the right one, or if more than one piece of it was fetched twice.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from app.hub.download.options import Options
from bench.fast_server import serving, write_model
from tests.hub.download.killing import kill_while_pulling, sound


def main(rounds: int, megabytes: int, speed_mb: float) -> None:
    piece, connections = Options().piece, Options().connections
    started = time.monotonic()
    twice = []
    with tempfile.TemporaryDirectory() as scratch:
        source = write_model(Path(scratch) / "source.gguf", megabytes)
        body = source.read_bytes()
        takes_s = len(body) / (speed_mb * 1e6)
        with serving(source, bytes_per_s=speed_mb * 1e6 / connections) as url:
            for number in range(rounds):
                home = Path(scratch) / "home"
                kill_while_pulling(url, home, random.uniform(0, takes_s), piece)
                twice.append(sound(url, home, body, piece))
                shutil.rmtree(home)
                told = f"{number + 1} kills, all files right, at most {max(twice) / 1e6:.1f} MB fetched twice"
                print(f"\r{told} (a piece is {piece / 1e6:.1f} MB)", end="", flush=True)
    print(f"; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["50", "200", "200"][len(sys.argv) - 1 :]]
    main(int(arguments[0]), int(arguments[1]), float(arguments[2]))
