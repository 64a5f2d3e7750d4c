"""Room on the disk: asked for before a file comes, and told of in words when it ends."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import DownloadError, printable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def check_room(folder: Path, needed: int) -> None:
    """DownloadError with both numbers where `needed` bytes do not fit on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{needed:,} bytes are needed in {printable(str(folder), 200)} and {free:,} are free",
            "make room ('qchat models parts' shows unfinished downloads), or move qchat's folders with QCHAT_HOME",
        )


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turns a failed write to `target` into an error that names the file and, for a full disk, the way out."""
    try:
        yield
    except OSError as error:
        where = printable(str(target), 200)
        if error.errno in _FULL:
            raise DownloadError(
                f"the disk is full: {where} cannot be written ({error.strerror})",
                "make room and pull again; 'qchat models parts' shows and removes unfinished downloads",
            ) from error
        raise DownloadError(f"cannot write {where}: {error.strerror}") from error
