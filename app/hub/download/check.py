"""Whether what came is a model at all, and if not, what it is."""

from __future__ import annotations

from pathlib import Path

from app.engine.gguf import SPLIT_COUNT, SPLIT_NUMBER, read_gguf
from app.errors import DownloadError, ModelFileError, printable


class NotAModelError(DownloadError):
    """What came is something else altogether."""


def check_model(path: Path, number: int = 0, count: int = 1) -> None:
    """Raises unless the file is a model, or the part `number`, from 0, of `count`.

    NotAModelError if it is something else altogether; the reader's ModelFileError if it is a damaged GGUF.
    """
    with path.open("rb") as beginning:
        start = beginning.read(1024)
    if start[:4] != b"GGUF":
        raise NotAModelError(f"what came is not a GGUF model but {_kind(start)}", "check the name or the address")
    try:
        with read_gguf(path) as file:
            said = file.metadata.get(SPLIT_NUMBER, 0), file.metadata.get(SPLIT_COUNT, 1)
    except ModelFileError as error:
        raise type(error)(f"the downloaded file is not usable: {error.message}", error.hint) from error
    if said != (number, count):
        raise ModelFileError(
            f"the downloaded file says that it is part {said[0] + 1} of {said[1]}, not {number + 1} of {count}",
            "ask for the part 1 of the model by its whole name, NAME-00001-of-0000N.gguf",
        )


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
