"""Packed weights kept on disk, so that the next start maps a file in place of rearranging one.

A file belongs to one model (size, time of change and inode of each of its files, and the place of every tensor) and one
way of packing (lanes and the sources that decide it). It is written beside its name and renamed when it is complete.
The head of a file has a checksum, which covers one word of every page of the weights: that finds what a crash or a full
disk leaves behind without reading it all. docs/decisions/packed-cache.md says why it is as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.settings import paths, private_dir

LEAST_BYTES = 256 << 20  # smaller models are packed in less time than a person notices
ROOM_LEFT = 2  # the disk must have this many times the size of the file free
STALE_SECONDS = 3600  # after which nobody is writing a draft any more

_PAGE = mmap.PAGESIZE
_HEAD = struct.Struct("<8sII")  # magic, length and checksum of the JSON text that follows
_MAGIC = b"QCPACK01"
_SUFFIX, _DRAFT = ".packed", ".part"
# Whatever decides a byte of the packed weights.
_SOURCES = (
    "pack.py", "weight_block.py", "weights.py", "layout.py", "kernels/pack_rows.py", "../formats.py", "../rope.py",
)  # fmt: skip


@dataclass(frozen=True)
class KeptWeights:
    """One file of the cache. `used`: when it was last mapped or written, in seconds since 1970."""

    path: Path
    model: str  # path of the model file; "" where the file is damaged
    n_bytes: int
    used: float


def cache_folder() -> Path:
    """Where packed weights are kept."""
    return paths().cache_dir / "packed"


def kept_weights() -> list[KeptWeights]:
    """Everything that is kept, the last used first."""
    kept = []
    for path in cache_folder().glob(f"*{_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:  # another qchat may remove it
            status = os.fstat(file.fileno())
            try:
                model = str(_read_head(file.fileno())["model"])
            except ValueError:
                model = ""
            kept.append(KeptWeights(path, model, status.st_size, status.st_mtime))
    return sorted(kept, key=lambda weights: weights.used, reverse=True)


def forget(model: Path | None = None) -> list[KeptWeights]:
    """Remove what is kept of a model file, or everything; what was removed."""
    gone = [weights for weights in kept_weights() if model is None or weights.model == str(model)]
    for weights in gone:
        weights.path.unlink(missing_ok=True)
    if model is None:
        _remove_drafts(older_than=0)
    return gone


class PackedCache:
    """The file of one model, to be mapped or to be written. most_bytes: what all files together may take."""

    def __init__(
        self, files: Sequence[Path], plan: Sequence[object], lanes: int, n_bytes: int, most_bytes: int,
        notify: Callable[[str], None],
    ) -> None:  # fmt: skip
        """files: of the model. plan: whatever decides where each weight goes, in a form whose repr says it all."""
        self._model, self._n_bytes, self._most, self._notify = files[0].resolve(), n_bytes, most_bytes, notify
        self._identity = _identity(files, plan, lanes)
        self._path = cache_folder() / f"{self._identity[:24]}{_SUFFIX}"

    def find(self) -> mmap.mmap | None:
        """The whole file, read-only, with the weights from the second page on; None if it is not there or damaged."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except OSError:
            return None
        try:
            whole = self._checked(descriptor)
        except (OSError, ValueError):
            self._notify("the packed weights on disk were damaged and are made again")
            self._path.unlink(missing_ok=True)
            return None
        finally:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.utime(self._path)
        return whole

    def _checked(self, descriptor: int) -> mmap.mmap:
        """The file, mapped; ValueError where it is not what was written."""
        size = _PAGE + self._n_bytes
        if os.fstat(descriptor).st_size != size:
            raise ValueError("length")
        head, whole = _read_head(descriptor), _mapped(descriptor, size)
        if head.get("identity") != self._identity or head.get("pages") != _page_checksum(whole):
            raise ValueError("checksum")
        return whole

    def draft(self) -> Draft | None:
        """A file to write the weights to, with room made for it; None where they do not fit."""
        size = _PAGE + self._n_bytes
        if size > self._most:
            return None
        folder = private_dir(cache_folder())
        _remove_drafts(STALE_SECONDS)
        kept = kept_weights()
        while kept and sum(weights.n_bytes for weights in kept) + size > self._most:
            kept.pop().path.unlink(missing_ok=True)
        if shutil.disk_usage(folder).free < ROOM_LEFT * size:
            return None
        try:
            return Draft(self._path, {"identity": self._identity, "model": str(self._model)}, size)
        except OSError as error:
            self.failed(error)
            return None

    def written(self) -> None:
        """Say what has been put on the disk, which nobody asked for in so many words."""
        size = f"{self._n_bytes / 1e9:.1f} GB"
        self._notify(f"the next start will be faster: {size} of packed weights are kept ('qchat models cache')")

    def failed(self, error: OSError) -> None:
        """Say that the weights could not be kept."""
        self._notify(f"the packed weights are not kept on disk: {error.strerror}")


class Draft:
    """A file of the cache while it is written; threads may write at once."""

    def __init__(self, path: Path, head: dict[str, Any], size: int) -> None:
        self._path, self._head, self._size = path, head, size
        self._part = path.with_suffix(f".{os.getpid()}{_DRAFT}")
        self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def write(self, data: memoryview, offset: int) -> None:
        """Write a part of the weights. Raises OSError where the disk is full."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], _PAGE + offset + done)

    def finish(self) -> mmap.mmap:
        """Give the file its name, and map it. Raises OSError."""
        os.ftruncate(self._descriptor, self._size)  # the last matrix may end before its last cache line
        whole = _mapped(self._descriptor, self._size)
        text = json.dumps(self._head | {"pages": _page_checksum(whole)}).encode()
        os.pwrite(self._descriptor, _HEAD.pack(_MAGIC, len(text), zlib.crc32(text)) + text, 0)
        self._part.replace(self._path)
        os.close(self._descriptor)
        return whole

    def abandon(self) -> None:
        """Leave nothing behind."""
        os.close(self._descriptor)
        self._part.unlink(missing_ok=True)


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    whole = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    for advice in ("MADV_HUGEPAGE", "MADV_WILLNEED"):
        if hasattr(mmap, advice):
            with contextlib.suppress(OSError):  # advice: a file system need not take it
                whole.madvise(getattr(mmap, advice))
    return whole


def _page_checksum(whole: mmap.mmap) -> int:
    """Of the last word of every page but the first."""
    words_a_page = _PAGE // 8
    with memoryview(whole) as octets, octets[: len(octets) // 8 * 8].cast("Q") as words:
        return zlib.crc32(words[2 * words_a_page - 1 :: words_a_page].tobytes())


def _read_head(descriptor: int) -> dict[str, Any]:
    """What a file says about itself; ValueError where it is damaged."""
    page = os.pread(descriptor, _PAGE, 0)
    magic, length, checksum = _HEAD.unpack(page[: _HEAD.size].ljust(_HEAD.size, b"\0"))
    text = page[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or zlib.crc32(text) != checksum:
        raise ValueError("head")
    head: dict[str, Any] = json.loads(text)
    return head


def _identity(files: Sequence[Path], plan: Sequence[object], lanes: int) -> str:
    found = [(status.st_size, status.st_mtime_ns, status.st_ino) for status in (file.stat() for file in files)]
    digest = hashlib.sha256(repr((found, lanes, plan)).encode())
    for source in _SOURCES:
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()


def _remove_drafts(older_than: float) -> None:
    for path in cache_folder().glob(f"*{_DRAFT}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
