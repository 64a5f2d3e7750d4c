"""The one backend that is open in this process, opened when a chat first needs it.

A model takes gigabytes, so there is never a second one: another model is opened after the first is closed. Opening
cannot be stopped half-way; whoever stops waiting for it leaves it to finish, and the next question finds it open. Only
the end of the process does not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial

from app.backends.base import Backend, Notice, Progress, SharesCores
from app.backends.registry import open_backend
from app.settings import Settings

Report = Callable[[Progress | Notice], None]
_Key = tuple[object, ...]


class BackendHost:
    """Hands out the backend that settings name. For one event loop; a reply must have ended before the next `get`."""

    def __init__(self, open_backend: Callable[[Settings, Report], Backend] = open_backend) -> None:
        self._open = open_backend
        self._key: _Key | None = None
        self._opening: asyncio.Future[Backend] | None = None
        self._report: Report = _ignore
        self._shares_cores: SharesCores | None = None

    @property
    def current(self) -> Backend | None:
        """The backend that is open, if one is."""
        opening = self._opening
        done = opening and opening.done() and not opening.cancelled() and not opening.exception()
        return opening.result() if opening and done else None

    def stand_aside(self, wanted: bool) -> None:
        """While `wanted`, a backend that computes on this machine leaves a core to the screen."""
        if self._shares_cores is not None:
            self._shares_cores.stand_aside(wanted)

    async def get(self, settings: Settings, report: Report) -> Backend:
        """The backend for `settings`; `report` hears, on the event loop, how far opening it is. Raises QChatError."""
        key = _key(settings)
        self._report = report
        try:
            if self._opening is None or self._key != key:
                await self.close()
                self._key = key
                self._opening = _in_thread(partial(self._open, settings, self._reporter()))
            opening = self._opening
            try:
                backend = await asyncio.shield(opening)
                self._shares_cores = backend if isinstance(backend, SharesCores) else None
                return backend
            except Exception:
                if self._opening is opening:
                    self._opening = None  # a failure is not kept: the file may be there the next time
                raise
        finally:
            self._report = _ignore

    async def close(self) -> None:
        """Give the model's memory back; waits for an opening that has begun."""
        opening = self._opening
        if opening is None:
            return
        await asyncio.wait([opening])  # whoever stops waiting here leaves it to be found by the next
        self._opening = self._shares_cores = None
        if not opening.cancelled() and not opening.exception():
            await opening.result().close()

    def _reporter(self) -> Report:
        loop = asyncio.get_running_loop()

        def report(event: Progress | Notice) -> None:
            loop.call_soon_threadsafe(lambda: self._report(event))

        return report


def _in_thread(work: Callable[[], Backend]) -> asyncio.Future[Backend]:
    """The result of `work`, in a thread that the end of the process does not wait for, as it would for a pool's."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Backend] = loop.create_future()

    def settle(backend: Backend | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        elif backend is not None:
            future.set_result(backend)

    def run() -> None:
        backend, failure = None, None
        try:
            backend = work()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, backend, failure)

    threading.Thread(target=run, name="qchat-opening", daemon=True).start()
    return future


def _key(settings: Settings) -> _Key:
    """Everything that a backend was opened with; sampling and the like come with each request."""
    s = settings
    return (s.backend, s.servers.get(s.backend), s.model, s.ctx, s.kv, s.threads, s.device, s.lm_head)


def _ignore(_event: Progress | Notice) -> None:
    pass
