"""Whether what came is a model at all, and if not, what it is."""

from __future__ import annotations

from pathlib import Path

from app.engine.gguf import read_gguf
from app.errors import DownloadError, ModelFileError, printable


def check_model(path: Path) -> None:
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
