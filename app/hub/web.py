"""A plain streaming download over HTTP into one file."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.errors import DownloadError, QChatError, printable

if TYPE_CHECKING:
    import httpx

OnProgress = Callable[[str, int, int | None], None]
"""Called with (stage, bytes done, bytes in all or None where that is not known)."""

CHUNK = 1 << 20  # bytes
CONNECT_S, READ_S = 10.0, 60.0


def ignore_progress(_stage: str, _done: int, _total: int | None) -> None:
    """For callers that show nothing."""


def fetch(url: str, target: Path, token: str | None, on_progress: OnProgress) -> None:
    """Stream `url` into the new file `target`. DownloadError says which server was asked and what to do.

    `token` goes to the host of `url` alone: httpx drops the header when a redirect leads to another origin.
    """
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
            _save(response, target, on_progress)
    except httpx.HTTPError as error:
        reason = printable(str(error) or type(error).__name__, 200)
        raise DownloadError(f"{_host(url)} could not be read: {reason}", "check the network and try again") from error
    except (httpx.InvalidURL, ValueError, ImportError) as error:  # a bad URL or proxy setting
        raise DownloadError(f"{printable(url)} cannot be fetched: {printable(str(error), 200)}") from error


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


def _save(response: httpx.Response, target: Path, on_progress: OnProgress) -> None:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"the server sent the file encoded as {printable(encoding)}, which was not asked for")
    length = response.headers.get("content-length", "")
    total = int(length) if length.isdecimal() else None
    if total is not None:
        check_room(target.parent, total)
    done = 0
    with writing(target), target.open("xb") as file:
        for chunk in response.iter_raw(CHUNK):
            file.write(chunk)
            done += len(chunk)
            on_progress("downloading", done, total)
    if total is not None and done != total:
        raise DownloadError(f"the connection ended after {done:,} of {total:,} bytes", "try again")


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
