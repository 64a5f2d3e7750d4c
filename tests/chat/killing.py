"""A process that saves a reply as it streams and is killed at some moment; what must be in the file afterwards.

Run as a program it is the process: it prints "begun ID", then for each piece "seen N T" (pieces, seconds) before the
reply is handed to the saver and "saved N" when it is known to be on the disk.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.chat.conversation import new_message, new_session
from app.chat.saver import Saver
from app.chat.store import Store

PIECE = "a piece of the reply, " * 10


@dataclass(frozen=True)
class Killed:
    """What the process said before it was killed: when each piece was seen (seconds), how many were surely saved."""

    message_id: str
    seen: dict[int, float]
    saved: int


def kill_while_saving(path: Path, after_pieces: int, delay_s: float = 0.0) -> Killed:
    """Start the process and kill it `delay_s` after it has handed over so many pieces (0: after its start)."""
    command = [sys.executable, "-m", "tests.chat.killing", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        so_far = Killed("", {}, 0)
        while len(so_far.seen) < after_pieces:
            so_far = _heard(so_far, process.stdout.readline())
        time.sleep(delay_s)
        process.kill()
        for line in process.stdout:
            so_far = _heard(so_far, line)
    return so_far


def _heard(so_far: Killed, line: str) -> Killed:
    assert line, "the process has ended by itself"
    if not line.endswith("\n"):
        return so_far  # cut off by the kill
    match line.split():
        case ["begun", message_id]:
            return replace(so_far, message_id=message_id)
        case ["seen", number, seconds]:
            return replace(so_far, seen=so_far.seen | {int(number): float(seconds)})
        case ["saved", number]:
            return replace(so_far, saved=int(number))
    raise AssertionError(f"unexpected: {line!r}")


def check(path: Path, rounds: list[Killed]) -> list[float]:
    """Assert that nothing saved is missing, in any round; returns the seconds of what was seen and is missing."""

    def complain(text: str) -> None:
        raise AssertionError(text)

    store = Store.open(path, complain)
    found = {m.id: m for one in store.sessions() for m in store.messages(one.session.id)}
    lost = []
    for one in rounds:
        if not one.seen:
            continue
        pieces = 0
        if message := found.get(one.message_id):
            pieces = len(message.content) // len(PIECE)
            assert message.content == PIECE * pieces
        assert pieces >= one.saved, f"{one.saved} pieces were saved, {pieces} are there"
        lost.append(max(one.seen.values()) - one.seen.get(pieces, min(one.seen.values())))
    store.close()
    return lost


async def _save_forever(path: Path) -> None:
    saver = Saver(partial(Store.open, path), print)
    session = new_session()
    reply = new_message(None, "assistant", "", state="streaming")
    saver.put_session(session)
    print("begun", reply.id, flush=True)
    number = 0
    while True:
        number += 1
        reply = replace(reply, content=PIECE * number)
        print("seen", number, time.monotonic(), flush=True)
        saver.put_message(session.id, reply)
        if number % 3 == 0:  # so that kills also fall between two saves that nobody waits for
            if not await saver.flush(10):
                raise RuntimeError("not saved")
            print("saved", number, flush=True)
        if number % 50 == 0:
            saver.put_message(session.id, replace(reply, state="stop"))


if __name__ == "__main__":
    asyncio.run(_save_forever(Path(sys.argv[1])))
