"""A plain streaming download over HTTP into one file.

The network is read in a thread of its own and the file is written in the caller's, so that a server that hangs or says
nothing can be left at once: whoever waits is asked several times a second, through the progress report, to go on.
"""

from __future__ import annotations

import errno
import queue
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.errors import DownloadError, QChatError, printable

if TYPE_CHECKING:
    import httpx

OnProgress = Callable[[str, int, int | None], None]
"""Called with (stage, bytes done, bytes in all or None where that is not known), every POLL_S seconds or more often.

Whatever it raises, such as `Cancelled`, ends what is under way, and nothing of that is kept.
"""

CHUNK = 1 << 20  # bytes
CONNECT_S, READ_S = 10.0, 60.0
POLL_S = 0.1
PIECES = 64  # that may wait to be written; the network gives at most 64 KiB at a time


class Cancelled(Exception):  # noqa: N818 - what a person chose, not an error
    """For an `OnProgress` to raise when the person no longer wants what is being fetched."""


def ignore_progress(_stage: str, _done: int, _total: int | None) -> None:
    """For callers that show nothing."""


def fetch(url: str, target: Path, token: str | None, on_progress: OnProgress) -> None:
    """Stream `url` into the new file `target`. DownloadError says which server was asked and what to do.

    `token` goes to the host of `url` alone: httpx drops the header when a redirect leads to another origin.
    """
    stage, done, total = "connecting", 0, None
    with closing(_in_thread(_pieces(url, token), lambda: on_progress(stage, done, total))) as pieces:
        _, total = next(pieces)
        if total is not None:
            check_room(target.parent, total)
        stage = "downloading"
        with writing(target), target.open("xb") as file:
            for piece, _ in pieces:
                file.write(piece)
                done += len(piece)
                on_progress(stage, done, total)
    if total is not None and done != total:
        raise DownloadError(f"the connection ended after {done:,} of {total:,} bytes", "try again")


_Pieces = Generator[tuple[bytes, int | None], None, None]
"""Bytes as they come, each with the size of the whole; the first piece is empty and means that the server answered."""


def _pieces(url: str, token: str | None) -> _Pieces:
    import httpx  # noqa: PLC0415 - a tenth of a second that only a download needs

    headers = {"Accept-Encoding": "identity"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=timeout) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            _check_status(response, url, bool(token))
            total = _length(response)
            yield b"", total
            for piece in response.iter_raw():
                yield piece, total
    except httpx.HTTPError as error:
        reason = printable(str(error) or type(error).__name__, 200)
        raise DownloadError(f"{_host(url)} could not be read: {reason}", "check the network and try again") from error
    except (httpx.InvalidURL, ValueError, ImportError) as error:  # a bad URL or proxy setting
        raise DownloadError(f"{printable(url)} cannot be fetched: {printable(str(error), 200)}") from error


def _in_thread(pieces: _Pieces, waiting: Callable[[], None]) -> _Pieces:
    """What `pieces` gives, read in another thread; `waiting` is called every POLL_S seconds in which nothing comes.

    Closing this does not wait for that thread, which may hang in a system call until its time is up. It holds a
    connection and no file, ends by itself at the next piece, and does not keep the program alive.
    """
    came: queue.Queue[tuple[bytes, int | None] | BaseException | None] = queue.Queue(PIECES)
    left = threading.Event()

    def put(item: tuple[bytes, int | None] | BaseException | None) -> None:
        while not left.is_set():
            try:
                came.put(item, timeout=POLL_S)
            except queue.Full:
                continue
            return

    def read() -> None:
        try:
            with closing(pieces):
                for piece in pieces:
                    put(piece)
                    if left.is_set():
                        return
            put(None)
        except BaseException as error:  # raised where the pieces are wanted
            put(error)

    threading.Thread(target=read, name="qchat-download", daemon=True).start()
    try:
        while True:
            try:
                item = came.get(timeout=POLL_S)
            except queue.Empty:
                waiting()
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()


def _check_status(response: httpx.Response, url: str, with_token: bool) -> None:
    status = response.status_code
    if status == 200:
        return
    where = f"{_host(url)} answered {status} for {printable(urlsplit(url).path, 160)}"
    if status in (401, 403):
        hint = "HF_TOKEN may be stale, or the licence is not yet accepted" if with_token else "set HF_TOKEN"
        raise DownloadError(f"{where}: access refused", f"{hint}; a wrong name is answered like this, too")
    if status == 404:
        raise DownloadError(f"{where}: not found", "check the names of the repository and the file")
    if status == 429:
        raise DownloadError(f"{where}: too many requests", "wait a while and try again")
    raise DownloadError(where, "try again later" if status >= 500 else None)


def _length(response: httpx.Response) -> int | None:
    """Bytes of the whole body, where the server says so."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"the server sent the file encoded as {printable(encoding)}, which was not asked for")
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None


def check_room(folder: Path, needed: int) -> None:
    """DownloadError with both numbers where `needed` bytes do not fit on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{needed:,} bytes are needed in {printable(str(folder))} and {free:,} are free",
            "make room, or move qchat's folders with QCHAT_HOME",
        )


class writing:  # noqa: N801 - reads as a statement: `with writing(path):`
    """Turns a failed write to `target` into an error that names the file and, for a full disk, the way out."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, QChatError):
            hint = "make room and try again" if error.errno == errno.ENOSPC else None
            raise DownloadError(f"cannot write {printable(str(self.target))}: {error.strerror}", hint) from error


def _host(url: str) -> str:
    return printable(urlsplit(url).netloc)
