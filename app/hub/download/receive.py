"""Leads the connections that fetch one file: the retries, the stalls, the record of what is here, the hash.

All decisions are made in the caller's thread, in one loop; connections only write to the part and tell when they end.
"""

from __future__ import annotations

import dataclasses
import math
import queue
from collections.abc import Callable
from contextlib import suppress

from app.errors import DownloadError, DownloadTimeoutError, NetworkError
from app.hub.download.connection import Connection
from app.hub.download.failures import ChangedError, Failure, RangeRefusedError
from app.hub.download.part import Part
from app.hub.download.retries import Retries
from app.hub.download.session import Remote, Session, Wanted, next_try
from app.hub.download.space import check_room
from app.hub.download.state import State, place_of
from app.hub.download.verify import GrowingHash
from app.hub.transfer import POLL_S

RECORD_S = 1.0  # after which the state is written anew, if anything came


class Receiving:
    """One attempt at one version of the remote file."""

    def __init__(
        self,
        wanted: Wanted,
        remote: Remote,
        session: Session,
        retries: Retries,
        tell: Callable[..., None],
        whole: int | None,
    ) -> None:
        self._wanted = wanted
        self._remote = remote
        self._session = session
        self._retries = retries
        self._tell = tell
        self._whole = whole
        self._clock = session.options.clock
        self._patience = session.options.patience
        self._limit = session.options.connections
        self._running: dict[Connection, tuple[float, int]] = {}  # with (when, bytes) of its last sign of life
        self._ended: queue.SimpleQueue[Connection | None] = queue.SimpleQueue()  # None: look up
        self._failure: Failure | None = None
        self._not_before = -math.inf  # when the next connection may begin
        self._brought = 0  # bytes since the last failure
        self._finished = False  # the whole came in one piece
        self._misplaced = 0  # answers that were not what was asked for
        self._worthless = False

    def run(self) -> str | None:
        """Raises ChangedError with nothing kept; on any other end, what can be gone on with is kept."""
        identity = self._remote.identity
        wanted = self._wanted
        state = State(wanted.model, wanted.source, place_of(wanted.address.url), identity, self._whole)
        self._part = part = Part.begin(wanted.part, state, self._session.options.piece)
        part.on_ahead = lambda: self._ended.put(None)
        try:
            if part.lost:
                self._session.notify(f"{self._wanted.name} is another file than the one begun here: it is fetched anew")
            with GrowingHash(part.path) as self._hash:
                self._room()
                part.record()
                self._receive()
                part.record()
                return self._verify()
        except ChangedError:
            self._worthless = True
            raise
        finally:
            self._leave()

    def _leave(self) -> None:
        for connection in self._running:
            self._part.release(connection.claim)
        useful = self._is_complete() or (self._remote.ranges and self._part.done > 0)
        if useful and not self._worthless:
            with suppress(DownloadError):  # the disk may be full; the state is then a little older
                self._part.record()
            self._part.close()
        else:
            self._part.remove()

    def _receive(self) -> None:
        recorded_at = self._clock.now()
        while not self._is_complete():
            self._begin_connections()
            self._one_event()
            self._drop_stalled()
            now = self._clock.now()
            if self._part.to_record or (self._part.unsaved and now - recorded_at > RECORD_S):
                self._part.record()
                self._room()
                recorded_at = now
            self._report()

    def _is_complete(self) -> bool:
        return self._finished or (self._remote.ranges and self._part.complete)

    def _begin_connections(self) -> None:
        if self._session.steering.paused or self._clock.now() < self._not_before:
            return
        while len(self._running) < (self._limit if self._remote.ranges else 1):
            if self._remote.ranges:
                claim = self._part.claim(self._session.options.piece if self._limit > 1 else self._part.size or 1)
            else:
                claim = self._part.claim_all()
                self._hash.begin_again()
            if claim is None:
                return
            connection = Connection(self._remote, self._part, claim, self._session, self._ended)
            self._running[connection] = (self._clock.now(), 0)
            connection.start()

    def _one_event(self) -> None:
        """Wait a moment for a connection that ends, or take in a little for the hash."""
        wanted = self._remote.identity.sha256 is not None
        try:
            ended = self._ended.get_nowait()
        except queue.Empty:
            if wanted and self._hash.advance(self._part.frontier):
                return
            if not self._running:
                self._clock.sleep(POLL_S)
                return
            try:
                ended = self._ended.get(timeout=POLL_S)
            except queue.Empty:
                return
        if ended is None or ended not in self._running:
            return
        self._end(ended)
        if ended.error is None:
            if not self._remote.ranges:
                self._part.settle()
                self._finished = True
            elif ended.received < self._patience.least and not ended.claim.complete:
                host = self._wanted.address.host
                self._failed(
                    Failure(NetworkError(f"{host} sends only {ended.received:,} bytes at a time", "try later"))
                )
        elif isinstance(ended.error, RangeRefusedError):
            self._take_whole()
        elif isinstance(ended.error, Failure):
            self._failed(ended.error)
        else:
            raise ended.error

    def _end(self, connection: Connection) -> None:
        del self._running[connection]
        self._part.release(connection.claim)
        self._brought += connection.received
        if self._remote.ranges and self._brought >= self._patience.progress:
            self._retries.progressed()

    def _take_whole(self) -> None:
        """The server cannot be trusted with stretches: one connection, from the first byte on.

        Once may be an accident on the way, and what is here is worth another try.
        """
        self._misplaced += 1
        if self._misplaced == 1 and self._part.done:
            host = self._wanted.address.host
            error = NetworkError(f"{host} sent another stretch of the file than was asked for", "try again later")
            self._failed(Failure(error))
            return
        for connection in list(self._running):
            self._end(connection)
        self._remote = dataclasses.replace(self._remote, ranges=False)

    def _failed(self, failure: Failure) -> None:
        self._failure = failure
        self._brought = 0
        if self._clock.now() < self._not_before and not failure.lasting:
            return  # connections that fail together are one failure
        if failure.busy:
            self._limit = max(1, len(self._running))
        self._not_before = self._clock.now() + self._retries.wait_s(failure)

    def _drop_stalled(self) -> None:
        now = self._clock.now()
        for connection, (since, received) in list(self._running.items()):
            if connection.held or connection.received - received >= self._patience.least:
                self._running[connection] = (now, connection.received)
            elif now - since > self._patience.stall_s:
                self._end(connection)
                self._failed(Failure(self._stalled(connection.received - received)))

    def _stalled(self, brought: int) -> DownloadTimeoutError:
        return DownloadTimeoutError(
            f"{self._wanted.address.host} sent {brought:,} bytes in {self._patience.stall_s:g} seconds",
            "the network or the server is too slow; pull again to go on where it stopped",
        )

    def _room(self) -> None:
        if self._part.size is not None:
            check_room(self._part.path.parent, self._part.size - self._part.done)

    def _report(self) -> None:
        done = self._part.done
        left = self._not_before - self._clock.now()
        if self._session.steering.paused:
            self._tell("paused", done)
        elif left > 0 and not self._running and self._failure:
            self._tell("retrying", done, next_try(self._failure, left))
        else:
            self._tell("downloading", done)

    def _verify(self) -> str | None:
        wanted = self._remote.identity.sha256
        if wanted is None:
            return None
        size = self._part.done
        while self._hash.advance(size, at_least=1):
            self._tell("verifying", self._hash.done)
        if self._hash.hexdigest() != wanted:
            self._worthless = True
            raise DownloadError(
                f"{self._wanted.name} came damaged: its sha256 is not the published one",
                "nothing of it is kept; pull again, and if it happens again the server or a proxy changes the file",
            )
        return wanted
