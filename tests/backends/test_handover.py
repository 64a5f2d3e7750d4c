"""Events on their way from the engine's thread to the loop."""

from __future__ import annotations

import asyncio
import random
import threading
import time

from app.backends.handover import TAKE_EVERY_S, Handover


async def taken_from_a_thread(count: int, pause_s: float, seed: int = 0) -> list[list[int]]:
    """What each take gives while another thread puts `count` numbers, with pauses of up to `pause_s` between some."""
    items: Handover[int] = Handover()
    pauses = random.Random(seed)

    def put() -> None:
        for number in range(count):
            items.put(number)
            if pauses.random() < 0.1:
                time.sleep(pauses.random() * pause_s)

    thread = threading.Thread(target=put)
    thread.start()
    takes = []
    while sum(map(len, takes)) < count:
        takes.append(await asyncio.wait_for(items.take(), 10))
    thread.join()
    return takes


def test_everything_comes_in_order_whatever_the_pauses() -> None:
    for seed in range(5):
        takes = asyncio.run(taken_from_a_thread(500, 2.2 * TAKE_EVERY_S / 20, seed))
        assert [number for take in takes for number in take] == list(range(500))


def test_a_fast_engine_does_not_wake_the_loop_for_every_token() -> None:
    begun = time.monotonic()
    takes = asyncio.run(taken_from_a_thread(2000, 0.001))
    assert len(takes) <= (time.monotonic() - begun) / TAKE_EVERY_S + 2


def test_the_first_comes_at_once_and_a_slow_engine_is_not_held_up() -> None:
    async def delays() -> list[float]:
        items: Handover[float] = Handover()
        found = []
        for _ in range(3):
            timer = threading.Timer(2 * TAKE_EVERY_S, lambda: items.put(time.monotonic()))
            timer.start()
            [put] = await items.take()
            found.append(time.monotonic() - put)
        return found

    assert min(asyncio.run(delays())) < TAKE_EVERY_S / 2
