"""A model behind URLs becomes one complete part: its files are fetched one after another and joined if there are more.

All servers are asked first, so that the room for everything is known to be there before anything comes.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from app.errors import printable
from app.hub.download.check import check_model
from app.hub.download.connection import Session
from app.hub.download.fetch import FileDownload, Wanted
from app.hub.download.kept import PART
from app.hub.download.limit import SpeedLimit
from app.hub.download.options import Options
from app.hub.download.part import remove
from app.hub.download.space import check_room
from app.hub.download.transport import Address, Transport
from app.hub.join import join_parts
from app.hub.source import WebSource
from app.hub.transfer import Notify, Steering


def fetch_model(
    source: WebSource, said: str, target: Path, steering: Steering, notify: Notify, options: Options
) -> None:
    """Fetch `source`, which a person wrote as `said`, into the part `target`. Raises DownloadError, ModelFileError."""
    transport = Transport(options.patience)
    try:
        limit = SpeedLimit(options.bytes_per_s, options.clock)
        session = Session(transport, options, limit, steering, notify)
        wanted = _files(source, said, target)
        files = [FileDownload(each, session) for each in wanted]
        for file in files:
            file.ask()
        _prepare(files, target)
        for each, file in zip(wanted, files, strict=True):
            sha256 = file.receive()
            _check(each.part)
            notify(_verdict(each, sha256))
    finally:
        transport.close()
    if len(wanted) > 1:
        _join([each.part for each in wanted], target, steering)


def _files(source: WebSource, said: str, target: Path) -> list[Wanted]:
    count = len(source.urls)
    wanted = []
    for number, url in enumerate(source.urls):
        name = unquote(url.partition("?")[0].rpartition("/")[2])
        part = target if count == 1 else target.with_name(name + PART)
        address = Address(url, source.token, source.repo)
        sha256 = source.sha256 or None if count == 1 else None
        note = f"part {number + 1} of {count}" if count > 1 else ""
        wanted.append(Wanted(address, part, source.file_name, said, sha256, note))
    return wanted


def _prepare(files: list[FileDownload], target: Path) -> None:
    """Tell the files of one another, and make sure that there is room for all of them and for what is made of them."""
    sizes = [file.size for file in files]
    known = [size for size in sizes if size is not None]
    whole = sum(known) if len(known) == len(sizes) else None
    before: int = 0
    for file, size in zip(files, sizes, strict=True):
        file.before, file.whole = before, whole
        before += size or 0
    if whole is not None and len(files) > 1:
        here = sum(file.here for file in files)
        check_room(target.parent, 2 * whole - here)


def _check(part: Path) -> None:
    """Raises, with nothing kept, unless the part is a model."""
    try:
        check_model(part)
    except Exception:
        remove(part)
        raise


def _verdict(wanted: Wanted, sha256: str | None) -> str:
    if sha256 is None:
        host = wanted.address.host
        return f"{wanted.name}: {host} tells no sha256, so only its size and its structure were checked"
    return f"{wanted.name}: verified, sha256 {printable(sha256)}"


def _join(parts: list[Path], target: Path, steering: Steering) -> None:
    remove(target)
    try:
        join_parts(parts, target, steering)
    except BaseException:
        remove(target)
        raise
