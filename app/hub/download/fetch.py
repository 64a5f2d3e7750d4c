"""One file of a server becomes a complete, verified part: leads the connections, the retries, the record and the hash.

All of it happens in the caller's thread, but for what may hang: whoever waits is told ten times a second how far it is.
"""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.errors import DownloadError, DownloadTimeoutError, NetworkError, printable
from app.hub.download import hub_api
from app.hub.download.connection import Connection, Remote, Session, check_plain
from app.hub.download.failures import ChangedError, Failure, RangeRefusedError
from app.hub.download.identity import sha256_in
from app.hub.download.part import Part
from app.hub.download.refusal import refusal
from app.hub.download.retries import Retries
from app.hub.download.space import check_room
from app.hub.download.state import State, load, place_of
from app.hub.download.transport import Address, Answer
from app.hub.download.verify import GrowingHash
from app.hub.transfer import POLL_S

RESTARTS = 3  # of a file that changes while it comes
RECORD_S = 1.0  # after which the state is written anew, if anything came
LISTED = 8  # names of other files that a message tells
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Wanted:
    """A file to fetch into `part`: that of the model `model`, or the file `number`, from 0, of its `count` files.

    `source` is how a person wrote it; `sha256` is the catalogue's.
    """

    address: Address
    part: Path
    model: str
    source: str
    sha256: str | None = None
    number: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """For a person."""
        return printable(self.part.name.removesuffix(".part"))

    @property
    def note(self) -> str:
        """Which file of the model it is, for a person; nothing where there is one."""
        return f"part {self.number + 1} of {self.count}" if self.count > 1 else ""


class FileDownload:
    """`ask` the server about the file, then `receive` it. `before` and `whole` are the bytes of the model's other
    parts and of all of them, for the reports."""

    def __init__(self, wanted: Wanted, session: Session) -> None:
        self._wanted = wanted
        self._session = session
        self._patience = session.options.patience
        self._clock = session.options.clock
        self._retries = Retries(self._patience)
        self._remote: Remote | None = None
        self.before = 0
        self.whole: int | None = None

    @property
    def size(self) -> int | None:
        """Bytes of the file, as far as the server has said."""
        return None if self._remote is None else self._remote.identity.size

    @property
    def here(self) -> int:
        """Bytes that an earlier pull left here."""
        found = load(self._wanted.part)
        return 0 if found is None else sum(stop - first for first, stop in found.done)

    def ask(self) -> None:
        """Find out which file the server has. Raises DownloadError and what the watcher raises."""
        while True:
            try:
                self._remote = self._aside(self._look)
                return
            except Failure as failure:
                self._wait(self._retries.wait_s(failure), failure)

    def receive(self) -> str | None:
        """Fetch it, or what is missing of it; its verified SHA-256, None where nobody told what that has to be."""
        for _ in range(RESTARTS):
            if self._remote is None:
                self.ask()
            assert self._remote is not None
            try:
                return _Receiving(
                    self._wanted, self._remote, self._session, self._retries, self._tell, self._whole_size()
                ).run()
            except ChangedError:
                self._session.notify(f"{self._wanted.name} was changed on the server meanwhile: it is fetched anew")
                self._remote = None
        raise DownloadError(
            f"{self._wanted.name} keeps changing on {self._wanted.address.host}", "try again when it is at rest"
        )

    def _look(self) -> Remote:
        """Ask for one byte, which tells the size, the validators and whether stretches can be asked for."""
        address = self._wanted.address
        with self._session.transport.get(address, 0, 0) as answer:
            self._retries.reached = True
            if answer.status not in (200, 206, 416):
                raise self._refused(answer)
            if answer.status != 416:
                check_plain(answer)
            identity = answer.identity
        sha256 = identity.sha256 or (sha256_in(identity.etag) if address.repo else None)
        if address.repo and sha256 is None:
            with suppress(Failure):  # then nothing is known of the hash, and that is said at the end
                listed = hub_api.find(self._session.transport, address)
                sha256 = None if listed is None else listed.sha256
        expected = self._wanted.sha256
        if None not in (expected, sha256) and expected != sha256:
            raise Failure(
                DownloadError(
                    f"{self._wanted.name} on {address.host} is not the file that the catalogue knows",
                    f"its sha256 is {sha256}, known is {expected}; give its address to fetch it nevertheless",
                ),
                lasting=True,
            )
        identity = dataclasses.replace(identity, sha256=expected or sha256)
        span = answer.span
        ranges = answer.status == 206 and span is not None and span.first == 0 and identity.certain
        return Remote(address, identity, ranges, self._refused)

    def _refused(self, answer: Answer) -> Failure:
        """Runs where the network is read: the names of a repository's files are asked for where one is missing."""
        address = self._wanted.address
        failure = refusal(answer, address, self._patience, self._clock)
        if answer.status != 404 or not address.repo or answer.headers.get("x-error-code") == "RepoNotFound":
            return failure
        with suppress(Failure):
            files = [file.path for file in hub_api.list_files(self._session.transport, address)]
            names = [name for name in files if name.lower().endswith(".gguf")] or files
            more = ", ..." if len(names) > LISTED else ""
            failure.error.hint = "it has " + ", ".join(printable(name) for name in names[:LISTED]) + more
        return failure

    def _aside(self, work: Callable[[], _Result]) -> _Result:
        """What `work` gives, done in another thread, while the watcher is told."""
        came: queue.SimpleQueue[_Result | BaseException] = queue.SimpleQueue()

        def do() -> None:
            try:
                came.put(work())
            except BaseException as error:  # raised where it is wanted
                came.put(error)

        threading.Thread(target=do, name="qchat-ask", daemon=True).start()
        begun = self._clock.now()
        while True:
            self._tell("connecting", 0)
            try:
                result = came.get(timeout=POLL_S)
            except queue.Empty:
                if self._clock.now() - begun > self._patience.stall_s:
                    raise Failure(self._silent()) from None
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def _silent(self) -> DownloadTimeoutError:
        return DownloadTimeoutError(
            f"{self._wanted.address.host} did not answer within {self._patience.stall_s:.0f} seconds",
            "check the network, or try again later",
        )

    def _wait(self, seconds: float, failure: Failure) -> None:
        until = self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0:
            self._tell("retrying", 0, _next_try(failure, left))
            self._clock.sleep(min(POLL_S, left))

    def _whole_size(self) -> int | None:
        return self.whole if self._wanted.note else self.size

    def _tell(self, stage: str, done: int, note: str = "") -> None:
        both = ", ".join(text for text in (self._wanted.note, note) if text)
        self._session.steering(stage, self.before + done, self._whole_size(), both)


class _Receiving:
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
        self._ended: queue.SimpleQueue[Connection | None] = queue.SimpleQueue()
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
            self._tell("retrying", done, _next_try(self._failure, left))
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


def _next_try(failure: Failure, left: float) -> str:
    return f"{failure.error.message}; next try in {math.ceil(left)} s"
