"""One connection of a download, in a thread of its own: asks for a stretch, checks that it is that, and hands it on.

The thread is left behind when it is no longer wanted: it may hang in a system call until its time is up, writes nothing
more, and does not keep the program alive.
"""

from __future__ import annotations

import queue
import threading

from app.errors import DownloadError, NetworkError, printable
from app.hub.download.failures import ChangedError, Failure, RangeRefusedError
from app.hub.download.part import Claim, Part
from app.hub.download.session import Remote, Session
from app.hub.download.transport import Answer
from app.hub.transfer import POLL_S


class Connection(threading.Thread):
    """Fetches `claim` of the part. When it ends it puts itself into `ended`, with `error` if it failed."""

    def __init__(
        self,
        remote: Remote,
        part: Part,
        claim: Claim,
        session: Session,
        ended: queue.SimpleQueue[Connection | None],
    ) -> None:
        super().__init__(name="qchat-download", daemon=True)
        self.claim = claim
        self.error: BaseException | None = None
        self.received = 0  # bytes
        self.held = False  # waits because it is told to, not because of the server
        self._remote = remote
        self._part = part
        self._session = session
        self._clock = session.options.clock
        self._ended = ended

    def run(self) -> None:
        try:
            self._fetch()
        except BaseException as error:  # raised where the download is led
            self.error = error
        self._ended.put(self)

    def _fetch(self) -> None:
        claim, remote = self.claim, self._remote
        first, last = (claim.first, claim.stop - 1) if remote.ranges and claim.stop else (None, None)
        with self._session.transport.get(remote.address, first, last) as answer:
            coming = _stretch(answer, remote, claim) if remote.ranges else _whole(answer, remote)
            for piece in answer.pieces():
                self.received += len(piece)
                self.held = True  # by a disk that is slower than the network
                if not self._part.write(claim, piece):
                    return
                self.held = False
                if claim.complete:
                    break
                self._hold(len(piece))
        if coming is not None and self.received < coming:
            raise Failure(
                NetworkError(
                    f"{answer.host} ended the connection {coming - self.received:,} bytes too early",
                    "the server or the network is at fault; try again later",
                )
            )

    def _hold(self, came: int) -> None:
        """Wait as long as the speed limit asks for or the download is paused."""
        until = self._clock.now() + self._session.limit.wait_s(came)
        while not self.claim.dropped and (self._session.steering.paused or self._clock.now() < until):
            self.held = True
            self._clock.sleep(POLL_S if self._session.steering.paused else min(POLL_S, until - self._clock.now()))
        self.held = False


def _stretch(answer: Answer, remote: Remote, claim: Claim) -> int:
    """Bytes that come, once the answer is a beginning of what was claimed or more. Raises if it is anything else."""
    if answer.status in (200, 416):
        raise RangeRefusedError
    check_file(answer, remote)
    span = answer.span
    if answer.status != 206 or span is None or span.first != claim.first:
        raise RangeRefusedError
    if answer.length is not None and answer.length != span.stop - span.first:
        raise RangeRefusedError
    return min(span.stop, claim.stop or span.stop) - span.first


def _whole(answer: Answer, remote: Remote) -> int | None:
    """Bytes that come, None where the server does not say, once the answer is the whole file. Raises if it is not."""
    check_file(answer, remote)
    if answer.status != 200 or answer.span is not None:
        raise Failure(
            DownloadError(
                f"{answer.host} sends a part of the file where all of it was asked for", "try another server"
            ),
            lasting=True,
        )
    return answer.length


def check_file(answer: Answer, remote: Remote) -> None:
    """Raises unless the answer brings bytes of the file that was begun."""
    if answer.status not in (200, 206):
        raise remote.refused(answer)
    check_plain(answer)
    if remote.identity.agrees(answer.identity) is False:
        raise ChangedError


def check_plain(answer: Answer) -> None:
    """Raises a lasting Failure for a body that is packed or a web page, whatever its status says."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Failure(
            DownloadError(
                f"{answer.host} sent the file encoded as {printable(encoding)}, which was not asked for",
                "the server, or a proxy on the way, has to send it as it is",
            ),
            lasting=True,
        )
    if answer.headers.get("content-type", "").strip().lower().startswith("text/html"):
        raise Failure(
            DownloadError(
                f"{answer.host} sent a web page and not the file (a login or maintenance page?)",
                "open the address in a browser to see what it says",
            ),
            lasting=True,
        )
