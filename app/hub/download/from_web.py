"""The files of a model behind URLs become complete parts: one file, or those of a split model one after another.

All of them are asked about first, so that the room for everything is known to be there before anything comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.errors import DownloadError
from app.hub.download.check import check_model
from app.hub.download.fetch import FileDownload
from app.hub.download.kept import PART
from app.hub.download.limit import SpeedLimit
from app.hub.download.options import Options
from app.hub.download.part import remove
from app.hub.download.session import Session, Wanted
from app.hub.download.space import check_room
from app.hub.download.transport import Address, Transport
from app.hub.source import WebSource
from app.hub.transfer import Notify, Steering


def fetch_files(
    source: WebSource,
    names: Sequence[str],
    said: str,
    incoming: Path,
    steering: Steering,
    notify: Notify,
    options: Options,
) -> dict[str, str]:
    """Fetch those files of `source` that have one of `names`, each into a part in the folder `incoming`.

    `said` is how a person wrote the source. Returns the SHA-256 of each file of which it was verified, by name. Raises
    DownloadError, and ModelFileError for what is no model.
    """
    verified: dict[str, str] = {}
    transport = Transport(options.patience)
    try:
        limit = SpeedLimit(options.bytes_per_s, options.clock)
        session = Session(transport, options, limit, steering, notify)
        wanted = [each for each in _files(source, said, incoming) if each.part.name.removesuffix(PART) in names]
        files = [FileDownload(each, session) for each in wanted]
        for file in files:
            file.ask()
        _prepare(files, incoming)
        for each, file in zip(wanted, files, strict=True):
            sha256 = file.receive()
            _check(each)
            notify(_verdict(each, sha256))
            if sha256 is not None:
                verified[each.name] = sha256
        return verified
    finally:
        transport.close()


def fetch_wheel(wanted: Wanted, steering: Steering, notify: Notify, options: Options) -> bool:
    """Fetch a wheel into its part; False, with nothing begun, where its server does not give it to anybody but pip.

    Raises DownloadError.
    """
    transport = Transport(options.patience)
    try:
        limit = SpeedLimit(options.bytes_per_s, options.clock)
        file = FileDownload(wanted, Session(transport, options, limit, steering, notify))
        try:
            file.ask()
        except DownloadError as error:
            if wanted.part.exists():  # a later pull goes on with it
                raise
            notify(f"{error.message}; pip is asked to fetch it")
            return False
        _prepare([file], wanted.part.parent)
        file.receive()
        return True
    finally:
        transport.close()


def _files(source: WebSource, said: str, incoming: Path) -> list[Wanted]:
    count = len(source.urls)
    return [
        Wanted(
            address=Address(url, source.token, source.repo),
            part=incoming / (name + PART),
            model=source.file_name,
            source=said,
            sha256=source.sha256 or None if count == 1 else None,
            number=number,
            count=count,
        )
        for number, (url, name) in enumerate(zip(source.urls, source.names, strict=True))
    ]


def _prepare(files: list[FileDownload], incoming: Path) -> None:
    """Tell the files of one another, and make sure that there is room for all of them."""
    sizes = [file.size for file in files]
    known = [size for size in sizes if size is not None]
    whole = sum(known) if len(known) == len(sizes) else None
    before = 0
    for file, size in zip(files, sizes, strict=True):
        file.before, file.whole = before, whole
        before += size or 0
    if whole is not None:
        check_room(incoming, whole - sum(file.here for file in files))


def _check(wanted: Wanted) -> None:
    """Raises, with nothing kept, unless the part is a model."""
    try:
        check_model(wanted.part, wanted.number, wanted.count)
    except Exception:
        remove(wanted.part)
        raise


def _verdict(wanted: Wanted, sha256: str | None) -> str:
    if sha256 is None:
        host = wanted.address.host
        return f"{wanted.name}: {host} tells no sha256, so only its size and its structure were checked"
    return f"{wanted.name}: verified, sha256 {sha256}"
