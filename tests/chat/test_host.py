"""What the host of a backend hands on to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.chat.host import BackendHost
from app.settings import load_settings


class Remote:
    """As much of a backend as the host needs."""

    async def close(self) -> None:
        pass


class OnThisMachine(Remote):
    def __init__(self) -> None:
        self.heard: list[bool] = []

    def stand_aside(self, wanted: bool) -> None:
        self.heard.append(wanted)


@pytest.mark.usefixtures("qchat_home")
def test_only_an_open_backend_that_computes_here_is_asked_to_stand_aside() -> None:
    here: Any = OnThisMachine()
    remote: Any = Remote()
    backends = iter([here, remote])

    async def use() -> None:
        host = BackendHost(lambda _settings, _report: next(backends))
        host.stand_aside(True)
        await host.get(load_settings(), lambda _: None)
        host.stand_aside(True)
        host.stand_aside(False)
        await host.close()
        host.stand_aside(True)
        await host.get(load_settings(), lambda _: None)
        host.stand_aside(True)

    asyncio.run(use())
    assert here.heard == [True, False]
