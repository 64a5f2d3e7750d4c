"""Whether the files of a model are what they should be, as far as anybody has said what that is.

Known values, in this order: what the catalogue says, what was recorded when qchat fetched the file, and the names of
files in stores that name them by their SHA-256 (Ollama, the Hugging Face cache). Where there is none, the header and
the bounds of every tensor are checked, which finds a file that is cut but not one with a changed byte.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.engine.gguf import read_model
from app.errors import ModelFileError, printable
from app.hub.catalogue import load_catalogue
from app.hub.library import Library, ModelEntry
from app.hub.records import recall

OnProgress = Callable[[str, int, int | None], None]
CHUNK = 4 << 20  # bytes

_DIGEST = re.compile(r"(?:sha256[:-])?([0-9a-f]{64})")


@dataclass(frozen=True)
class Known:
    """A value that a file must have, and who says so."""

    sha256: str
    said_by: str  # "the catalogue", "the download", "the Hugging Face cache", "Ollama"


@dataclass(frozen=True)
class Verdict:
    """What a check found: whether the model is as it should be, what was compared, and what is wrong."""

    good: bool
    checked: str
    problem: str = ""
    sha256: str | None = None  # of a file that was read as a whole


def verify(entry: ModelEntry, library: Library, on_progress: OnProgress) -> Verdict:
    """Check every file of `entry`. Whatever `on_progress` raises ends it.

    A file that has a known SHA-256 is read as a whole, the others up to the end of their headers.
    """
    if entry.problem:
        return Verdict(False, "what is there", entry.problem)
    try:
        with read_model(entry.path) as gguf:
            paths = gguf.paths
            tensors = f"the header and the bounds of {len(gguf.tensors):,} tensors"
    except ModelFileError as error:
        return Verdict(False, "the header and the bounds of the tensors", error.message)
    known = [known_value(entry, path, library) for path in paths]
    sizes = [path.stat().st_size if value else 0 for path, value in zip(paths, known, strict=True)]
    done, found = 0, None

    def read(count: int) -> None:
        nonlocal done
        done += count
        on_progress(f"verifying {printable(entry.name)}", done, sum(sizes))

    for path, value in zip(paths, known, strict=True):
        if value is None:
            continue
        found = _sha256(path, read)
        if found != value.sha256:
            what = f"{printable(path.name)} has the SHA-256 {found} and not {value.sha256}"
            return Verdict(False, f"SHA-256 against {value.said_by}", what, found)
    first = next((value for value in known if value is not None), None)
    if first is None:
        return Verdict(True, f"{tensors}; no SHA-256 of it is known")
    files = f" of {len(paths):,} files" if len(paths) > 1 else ""
    return Verdict(True, f"SHA-256{files} against {first.said_by}", "", found if len(paths) == 1 else None)


def known_value(entry: ModelEntry, path: Path, library: Library) -> Known | None:
    """What the SHA-256 of one file of `entry` must be; None where nobody has said."""
    if entry.origin == "huggingface":
        return _by_name(path.resolve(), "the Hugging Face cache")
    if entry.origin == "ollama":
        return _by_name(path, "Ollama")
    if not entry.is_ours:
        return None
    listed = load_catalogue().get(entry.name)
    if listed is not None and listed.sha256 and path.name == listed.file_name:
        return Known(listed.sha256, "the catalogue")
    record = None if entry.linked_to else recall(library.models_dir, path.name)
    return None if record is None else Known(record.sha256, "the download")


def _by_name(path: Path, said_by: str) -> Known | None:
    digest = _DIGEST.fullmatch(path.name)
    return None if digest is None else Known(digest[1], said_by)


def _sha256(path: Path, on_read: Callable[[int], None]) -> str:
    """`on_read` gets the bytes of each step. Raises ModelFileError where the file cannot be read to its end."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK))
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                on_read(count)
    except OSError as error:
        raise ModelFileError(f"{printable(path.name)} cannot be read: {error.strerror}") from error
    return digest.hexdigest()
