"""One file of a server becomes a complete, verified part: find out what the server has, then receive it.

Whatever may hang runs in a thread of its own: whoever waits is told ten times a second how far it is.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from app.errors import DownloadError, DownloadTimeoutError, printable
from app.hub.download import hub_api
from app.hub.download.connection import check_plain
from app.hub.download.failures import ChangedError, Failure
from app.hub.download.identity import sha256_in
from app.hub.download.receive import Receiving
from app.hub.download.refusal import refusal
from app.hub.download.retries import Retries
from app.hub.download.session import Remote, Session, Wanted, next_try
from app.hub.download.state import load
from app.hub.download.transport import Answer
from app.hub.transfer import POLL_S

RESTARTS = 3  # of a file that changes while it comes
LISTED = 8  # names of other files that a message tells
_Result = TypeVar("_Result")


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
                return Receiving(
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
            self._tell("retrying", 0, next_try(failure, left))
            self._clock.sleep(min(POLL_S, left))

    def _whole_size(self) -> int | None:
        return self.whole if self._wanted.note else self.size

    def _tell(self, stage: str, done: int, note: str = "") -> None:
        both = ", ".join(text for text in (self._wanted.note, note) if text)
        self._session.steering(stage, self.before + done, self._whole_size(), both)
