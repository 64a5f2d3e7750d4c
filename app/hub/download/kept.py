"""Downloads that are not complete: what lies in the library's `.incoming` folder, model by model, and removing it."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.hub.download import state
from app.hub.download.space import writing
from app.hub.library import Library
from app.lock import alone_if_free

PART, LOCK, SCRATCH, WHEEL = ".part", ".lock", ".pip", ".whl"


@dataclass(frozen=True)
class KeptPart:
    """What is here of one model. `source` is what to pull to go on with it, where that is known.

    `n_bytes` on this disk, `done` of `total` bytes of the model; a part that is of no use any more has a `done` of 0.
    """

    name: str  # the file name that the model gets
    n_bytes: int
    done: int
    total: int | None
    source: str
    busy: bool  # a qchat is fetching it now

    def is_called(self, name: str) -> bool:
        """Whether a person means this by `name`."""
        return name in (self.name, Path(self.name).stem)


def kept_parts(library: Library) -> list[KeptPart]:
    """Every download that is not complete, by name."""
    kept = []
    for name, files in sorted(_by_model(library).items()):
        with alone_if_free(library.incoming_dir / (name + LOCK)) as free:
            kept.append(_kept(name, files, busy=not free))
    return kept


def remove_parts(library: Library, name: str | None = None) -> list[KeptPart]:
    """Remove what is kept of the model that is called `name`, or of all; what was removed.

    What a qchat is fetching stays.
    """
    gone = []
    for model, files in sorted(_by_model(library).items()):
        with alone_if_free(library.incoming_dir / (model + LOCK)) as free:
            kept = _kept(model, files, busy=not free)
            if free and (name is None or kept.is_called(name)):
                gone.append(kept)
                _remove(files)
    return gone


def forget(library: Library, model: str) -> None:
    """Remove what is kept of `model`, for whoever holds its lock."""
    _remove(_by_model(library).get(model, ()))


def progress(library: Library, model: str) -> tuple[int, int | None]:
    """(bytes here, bytes in all) of a model that somebody else is fetching."""
    files = _by_model(library).get(model, ())
    here = _kept(model, files, busy=True)
    return here.done, here.total


def _by_model(library: Library) -> Mapping[str, Sequence[Path]]:
    """The files and folders of each model that is being fetched or was, but for locks."""
    found = defaultdict(list)
    if library.incoming_dir.is_dir():
        for path in library.incoming_dir.iterdir():
            if not path.name.endswith(LOCK):
                found[_model_of(path)].append(path)
    return found


def _model_of(path: Path) -> str:
    name = path.name.removesuffix(".new").removesuffix(".json")
    if not name.endswith(PART):
        return path.name.removesuffix(SCRATCH)
    said = state.load(path.with_name(name))
    return name.removesuffix(PART) if said is None else said.model


def _kept(name: str, files: Sequence[Path], *, busy: bool) -> KeptPart:
    states = [said for path in files if path.name.endswith(PART) and (said := state.load(path)) is not None]
    done = sum(stop - first for said in states for first, stop in said.done)
    total = next((said.whole for said in states), None)
    source = next((said.source for said in states), "")
    return KeptPart(name, sum(map(_disk_bytes, files)), done, total, source, busy)


def _disk_bytes(path: Path) -> int:
    """Bytes of disk of a file or of all files in a folder: less than the length where the file has holes."""
    total = 0
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            status = each.stat()
        except FileNotFoundError:  # whoever fetches it is at work
            continue
        total += getattr(status, "st_blocks", 0) * 512 or status.st_size
    return total


def _remove(files: Sequence[Path]) -> None:
    for path in files:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with writing(path):
                path.unlink(missing_ok=True)
