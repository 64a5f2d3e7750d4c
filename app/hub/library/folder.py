"""A folder of .gguf files: which of them belong together as the parts of one model, and what each is called.

Files and folders whose name begins with a dot are left out: programs keep there what is not complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.engine.part_names import PartName
from app.errors import printable
from app.hub.library.entry import ModelEntry, Origin

SUFFIX = ".gguf"


@dataclass(frozen=True)
class Found:
    """One model among the files of a folder. `files` are in order, without those that are missing."""

    name: str  # the path below the folder, without .gguf and without the number of a part
    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()  # the names of parts that should be there
    count: int = 1

    @property
    def problem(self) -> str:
        """What is said of a model that lacks parts."""
        if not self.missing:
            return ""
        more = f" and {len(self.missing) - 1:,} more" if len(self.missing) > 1 else ""
        return f"{len(self.missing):,} of {self.count:,} parts are missing: {printable(self.missing[0])}{more}"

    def size(self) -> int:
        """Bytes of the files that are there; a link that leads nowhere has none."""
        return sum(_size(path) for path in self.files)


def models_in(files: Iterable[tuple[str, Path]]) -> Iterator[Found]:
    """The models among (name below the folder, path), in the order of their names."""
    single: list[Found] = []
    parts: dict[tuple[str, int, str], dict[int, Path]] = {}
    for name, path in files:
        part = PartName.read(name)
        if part is None:
            single.append(Found(name[: -len(SUFFIX)], (path,)))
        else:
            parts.setdefault((part.stem, part.count, part.suffix), {})[part.number] = path
    together = []
    for (stem, count, suffix), there in parts.items():
        names = PartName(stem, 1, count, suffix).all
        missing = tuple(Path(names[number - 1]).name for number in range(1, count + 1) if number not in there)
        together.append(Found(stem, tuple(there[number] for number in sorted(there)), missing, count))
    taken = {found.name for found in single}
    named = [_apart(found) if found.name in taken else found for found in together]
    yield from sorted([*single, *named], key=lambda found: found.name.lower())


def files_below(root: Path) -> Iterator[tuple[str, Path]]:
    """(path below `root` with /, path) of every .gguf file, links to files included. Nothing that cannot be read."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name[0] != "."]
        where = Path(folder)
        for name in names:
            if name[0] != "." and name.lower().endswith(SUFFIX):
                path = where / name
                yield path.relative_to(root).as_posix(), path


@dataclass(frozen=True)
class FolderStore:
    """A folder and all below it, as a person or LM Studio keeps it."""

    prefix: str
    place: str
    root: Path
    origin: Origin = "folder"
    remove_hint: str = "remove the file yourself"

    def entries(self) -> Iterator[ModelEntry]:
        """See `Store.entries`."""
        for found in models_in(files_below(self.root)):
            yield entry_of(found, f"{self.prefix}:{found.name}", self.origin, self.place)


def entry_of(found: Found, name: str, origin: Origin, place: str) -> ModelEntry:
    """The entry of a model that is used where it lies."""
    return ModelEntry(
        name, found.files[0], found.size(), origin=origin, place=place, files=found.files, problem=found.problem
    )


def _apart(found: Found) -> Found:
    """A split model whose joined copy lies beside it has another name."""
    return Found(f"{found.name}-in-{found.count}-parts", found.files, found.missing, found.count)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
