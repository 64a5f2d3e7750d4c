"""One model of the library: what it is called, where its files are, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Origin = Literal["qchat", "folder", "huggingface", "lmstudio", "ollama"]


@dataclass(frozen=True)
class ModelEntry:
    """A model on this disk, before its file is opened.

    `name` is what `--model` takes; in the models folder it is the catalogue name if there is one, else the file name
    without .gguf, and everywhere else it begins with the name of the store and a colon, so that no two models share
    one. `path` is the file, or the first that is there of a split model, whose parts are in `files`.
    """

    name: str
    path: Path
    size: int  # bytes of all files; 0 where a link leads nowhere
    linked_to: Path | None = None  # set for a file registered in place
    origin: Origin = "qchat"
    place: str = "qchat"  # the origin, for a person
    files: tuple[Path, ...] = ()
    problem: str = ""  # why it cannot be opened, where that is known without opening it

    @property
    def is_ours(self) -> bool:
        """Whether qchat may remove it."""
        return self.origin == "qchat"


class Store(Protocol):
    """A place with models that are used where they lie."""

    @property
    def prefix(self) -> str:
        """What stands before the colon of their names."""
        ...

    @property
    def place(self) -> str:
        """What it is, for a person."""
        ...

    @property
    def remove_hint(self) -> str:
        """How a person removes a model there."""
        ...

    def entries(self) -> Iterable[ModelEntry]:
        """Every model there, broken ones too; nothing where the place is missing or cannot be read."""
        ...
