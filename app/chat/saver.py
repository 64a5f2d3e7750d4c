"""Saving without waiting: every write goes through one thread, in order, and is tried again until it succeeds.

A reply must never be lost, or held up, because another program has locked the file or the disk is full. So a front end
hands over what is to be saved and goes on; where saving fails, it is told why, and at the end it can have what was not
saved written to a file of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from app.chat.conversation import Message, Session
from app.errors import QChatError

if TYPE_CHECKING:  # the app's first picture comes before the database
    from app.chat.damage import Notify
    from app.chat.store import Store

FIRST_RETRY_S, LAST_RETRY_S = 0.25, 5.0

T = TypeVar("T")
_Key = tuple[str, str]  # session id and message id; "" for the session itself, which so comes before its messages


class Saver:
    """The store of an event loop, and only for use on it. Everything but `run`, `flush` and `close` returns at once.

    unsaved    how many chats and messages wait to be saved; for a moment after each `put_...` that is never 0
    failing    why the last try failed, as a sentence; None while saving works. A front end shows "not saved" for it.
    """

    def __init__(
        self,
        open_store: Callable[[Notify], Store],
        notify: Notify,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Inside a running loop. The store is opened in the thread, when it is first needed; that is tried again too.

        `notify` gets what the store has to tell a person. `on_change` is called when `failing` has changed. Both are
        called on the loop.
        """
        self.failing: str | None = None
        self._open_store = open_store
        self._notify = notify
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store: Store | None = None  # belongs to the thread
        self._lock = threading.Lock()  # of the next two
        self._waiting: dict[_Key, Session | Message] = {}
        self._drain_is_queued = False
        self._sessions: dict[str, Session] = {}  # the newest of each, for `rescue`
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = FIRST_RETRY_S
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def unsaved(self) -> int:
        return len(self._waiting)

    def put_session(self, session: Session) -> None:
        """Save `session`; see `Store.put_session`."""
        self._sessions[session.id] = session
        self._put((session.id, ""), session)

    def put_message(self, session_id: str, message: Message) -> None:
        """Save `message`; of several versions that wait, the newest is saved."""
        self._put((session_id, message.id), message)

    async def run(self, work: Callable[[Store], T]) -> T:
        """The result of `work`, done in the thread after everything that was put before. Raises what `work` raises."""
        if self._waiting and not self._retry:
            self._queue_drain()
        return await asyncio.wrap_future(self._thread.submit(lambda: work(self._opened())))

    async def flush(self, timeout_s: float) -> bool:
        """Whether everything is saved; waits up to `timeout_s` for it."""
        self._queue_drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), timeout_s)
        return not self._waiting

    async def close(self, timeout_s: float) -> bool:
        """`flush`, then give the file back. What is not saved then can still be rescued."""
        saved = await self.flush(timeout_s)
        if self._retry:
            self._retry.cancel()
        self._thread.submit(self._close_store)
        self._thread.shutdown(wait=False)
        return saved

    def rescue(self, folder: Path) -> Path:
        """Write what is not saved to a new file in `folder`, or where that fails in the system's folder for temporary
        files, for `qchat sessions import`. Returns its path; raises OSError if neither can be written.
        """
        from app.chat.export import write_unsaved  # noqa: PLC0415 - nothing to write, nothing to import

        chats: dict[str, tuple[Session, list[Message]]] = {}
        for (session_id, _), value in self._sorted():
            session = self._sessions.get(session_id, Session(session_id))
            _, messages = chats.setdefault(session_id, (session, []))
            if isinstance(value, Message):
                messages.append(value)
        try:
            return write_unsaved(folder, list(chats.values()))
        except OSError:
            return write_unsaved(Path(tempfile.gettempdir()), list(chats.values()))

    def _put(self, key: _Key, value: Session | Message) -> None:
        with self._lock:
            self._waiting[key] = value
        self._drained.clear()
        if not self._retry:  # while saving fails, the timer decides when the next try is
            self._loop.call_soon(self._queue_drain)  # with all that is put in the same breath

    def _queue_drain(self) -> None:
        with self._lock:
            if self._drain_is_queued:
                return
            self._drain_is_queued = True
        self._thread.submit(self._drain)

    def _sorted(self) -> list[tuple[_Key, Session | Message]]:
        """What waits, chats before messages, otherwise in the order in which it came."""
        with self._lock:
            return sorted(self._waiting.items(), key=lambda item: item[0][1] != "")

    # In the thread

    def _drain(self) -> None:
        with self._lock:
            self._drain_is_queued = False
        reason = None
        try:
            for key, value in self._sorted():
                store = self._opened()
                if isinstance(value, Message):
                    store.put_message(key[0], value)
                else:
                    store.put_session(value)
                with self._lock:
                    if self._waiting.get(key) is value:
                        del self._waiting[key]
        except QChatError as error:
            reason = error.message
        except Exception as error:  # a bug must not end the saving of everything that comes after
            reason = f"unexpected {type(error).__name__}: {error}"
        self._on_loop(self._drain_ended, reason)

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_store(lambda text: self._on_loop(self._notify, text))
        return self._store

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(call, *arguments)

    # On the loop

    def _drain_ended(self, reason: str | None) -> None:
        if self._retry:
            self._retry.cancel()
            self._retry = None
        if reason is None:
            self._retry_s = FIRST_RETRY_S
            if not self._waiting:
                self._drained.set()
        else:
            self._retry = self._loop.call_later(self._retry_s, self._try_again)
            self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
        if reason != self.failing:
            self.failing = reason
            self._on_change()

    def _try_again(self) -> None:
        self._retry = None
        self._queue_drain()
