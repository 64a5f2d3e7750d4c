"""The list of files that the Hugging Face hub has of a repository, with their hashes.

GET /api/models/ORG/REPO/tree/REVISION, see https://huggingface.co/docs/hub/api. Later pages are asked for at the same
server whatever host their link names: a mirror often repeats the link of the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from app.errors import DownloadError
from app.hub.download.failures import Failure
from app.hub.download.identity import sha256_in
from app.hub.download.transport import Address, Answer, Transport

MAX_PAGES = 20
MAX_BYTES = 8 << 20  # of one page
_NEXT = re.compile(r'<([^>]*)>;[^,]*rel="?next"?')


@dataclass(frozen=True)
class HubFile:
    """One file: its path in the repository, bytes, and hash where the hub knows it."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Page:
    """One page of a list. `following`: the query of the next one; None where it is the last."""

    files: Sequence[HubFile]
    following: str | None


Refused = Callable[[Answer, Address], Failure]
"""The failure that an answer without a list stands for."""

Ask = Callable[[Callable[[], Page]], Page]
"""Calls what it is given and returns what that returns: once, or as `Asking.until_answered` does."""


def at_once(ask: Callable[[], Page]) -> Page:
    """An `Ask` for whoever has no patience."""
    return ask()


def find(transport: Transport, address: Address, refused: Refused, ask: Ask = at_once) -> HubFile | None:
    """The entry of the file at `address`; None where the hub lists none. Raises as `list_files` does."""
    wanted = unquote(_pieces(address)[2])
    return next((file for file in list_files(transport, address, refused, ask) if file.path == wanted), None)


def list_files(transport: Transport, address: Address, refused: Refused, ask: Ask = at_once) -> Iterator[HubFile]:
    """The files of the repository of `address`, page by page, each of them asked for by `ask`.

    Raises what `ask` makes of a Failure, be it that of `refused` where the server gives no list.
    """
    base, revision, _ = _pieces(address)
    query: str | None = "recursive=true"
    for _ in range(MAX_PAGES):
        here = Address(f"{base}/tree/{revision}?{query}", address.token, address.repo)
        page = ask(lambda: _page(transport, here, refused))  # noqa: B023 - called before `here` is another
        yield from page.files
        if (query := page.following) is None:
            return


def _pieces(address: Address) -> tuple[str, str, str]:
    """(URL of the repository in the API, revision, path of the file) of .../ORG/REPO/resolve/REVISION/PATH."""
    repository, _, rest = address.url.partition("/resolve/")
    revision, _, path = rest.partition("/")
    server = repository.removesuffix(f"/{address.repo}")
    return f"{server}/api/models/{address.repo}", revision, urlsplit(path).path


def _page(transport: Transport, here: Address, refused: Refused) -> Page:
    with transport.get(here) as answer:
        if answer.status != 200:
            raise refused(answer, here)
        link = _NEXT.search(answer.headers.get("link", ""))
        files = list(_files(answer.text(MAX_BYTES), answer.host))
    return Page(files, None if link is None else urlsplit(link[1]).query)


def _files(body: bytes, host: str) -> Iterator[HubFile]:
    try:
        for entry in json.loads(body):
            if entry.get("type") == "file":
                lfs = entry.get("lfs") or {}
                yield HubFile(str(entry["path"]), int(entry["size"]), sha256_in(lfs.get("oid")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Failure(DownloadError(f"{host} gives no list of files that can be read"), lasting=True) from error
