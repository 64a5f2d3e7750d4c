"""Kill a process that saves a streaming reply, again and again, and see what of the chats is left.

    python -m bench.kill_store [ROUNDS]

A tenth of the kills fall while the process starts, so also while the file is made. Fails if anything that was saved is
missing or the file is damaged.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.chat.killing import Killed, check, kill_while_saving


def main(rounds: int) -> None:
    kills: list[Killed] = []
    lost = [0.0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            path = Path(folder) / f"file {number // 10}" / "sessions.db"
            if number % 10 == 0:
                kills.clear()
                kill_while_saving(path, 0, random.uniform(0, 0.5))
            else:
                kills.append(kill_while_saving(path, 1, random.uniform(0, 0.5)))
            lost += check(path, kills)
            print(f"\r{number + 1} kills, at most {max(lost):.3f} s of what was seen missing", end="", flush=True)
        damaged = list(Path(folder).glob("*/*damaged*"))
    print(f", nothing that was saved; {len(damaged)} files damaged; {time.monotonic() - started:.0f} s")
    sys.exit(1 if damaged else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
