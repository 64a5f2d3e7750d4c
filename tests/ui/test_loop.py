"""The loop of the app says when it works, for the engine to leave it a core."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from app.ui.loop import telling_loop


def test_the_loop_tells_when_it_works_and_when_it_waits() -> None:
    heard: list[str] = []

    async def work() -> None:
        for _ in range(3):
            heard.append("a callback runs")
            await asyncio.sleep(0.01)
            heard.append("a callback runs")
            await asyncio.sleep(0)  # there is more to do: no wait

    factory = telling_loop(lambda works: heard.append("works" if works else "waits"))
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work())
    assert heard.count("waits") >= 3, "one for each sleep"
    assert all(after == "works" for before, after in pairwise(heard) if before == "waits")
