"""The models on this disk: the .gguf files of one folder, and links in it to files that live elsewhere."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from app.errors import ModelNotFoundError, QChatError, printable
from app.hub.catalogue import load_catalogue
from app.settings import private_dir


@dataclass(frozen=True)
class ModelEntry:
    """One model of the library. `name` is its catalogue name if it has one, else the file name without .gguf."""

    name: str
    path: Path
    size: int  # bytes; 0 where a link leads nowhere
    linked_to: Path | None = None  # set for a file registered in place


class Library:
    """The models folder.

    Names are resolved in this order: a path (anything with a separator), a catalogue name, the name of a file here with
    or without .gguf, a file in the working directory.
    """

    def __init__(self, models_dir: Path) -> None:
        self.models_dir = models_dir

    @property
    def incoming_dir(self) -> Path:
        """Where a model is gathered before it is checked: on the same file system, so that moving it is atomic."""
        return self.models_dir / ".incoming"

    def prepare(self) -> None:
        """Make the folders, for this user alone."""
        private_dir(self.models_dir)
        private_dir(self.incoming_dir)

    def list(self) -> list[ModelEntry]:
        """Every model here, by name."""
        if not self.models_dir.is_dir():
            return []
        files = [path for path in self.models_dir.iterdir() if path.suffix.lower() == ".gguf" and path.name[0] != "."]
        return sorted((self.entry(path) for path in files if path.is_file() or path.is_symlink()), key=_by_name)

    def entry(self, path: Path) -> ModelEntry:
        """The entry of a file in the models folder."""
        known = {entry.file_name: name for name, entry in load_catalogue().items()}
        target = path.readlink() if path.is_symlink() else None
        size = path.stat().st_size if path.exists() else 0
        return ModelEntry(known.get(path.name, path.stem), path, size, target)

    def find(self, name_or_path: str) -> Path:
        """The file that a name or path means; ModelNotFoundError says what to do instead."""
        entry = self._lookup(name_or_path)
        if entry is not None:
            if not entry.path.exists():
                raise ModelNotFoundError(
                    f"the model {printable(entry.name)} is a link to {printable(str(entry.linked_to))}, which is gone",
                    f"'qchat models remove {printable(entry.name)}' forgets it",
                )
            return entry.path
        path = Path(name_or_path).expanduser()
        if path.is_file():
            return path.absolute()
        raise ModelNotFoundError(f"no model {printable(name_or_path)} on this disk", self._advice(name_or_path))

    def remove(self, name: str) -> ModelEntry:
        """Delete a model of this folder and return what it was; a file registered in place stays where it is."""
        entry = self._lookup(name)
        if entry is None:
            raise ModelNotFoundError(
                f"no model {printable(name)} in {printable(str(self.models_dir))}", "'qchat models list' shows them"
            )
        try:
            entry.path.unlink()
        except OSError as error:
            raise QChatError(f"cannot remove {printable(str(entry.path))}: {error.strerror}") from error
        return entry

    def _lookup(self, name: str) -> ModelEntry | None:
        for entry in self.list():
            if name in (entry.name, entry.path.name, entry.path.stem):
                return entry
        return None

    def _advice(self, name: str) -> str:
        if _is_path(name):
            return "check the path"
        if name in load_catalogue():
            return f"'qchat models pull {name}' fetches it"
        names = [entry.name for entry in self.list()] + list(load_catalogue())
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        advice = "'qchat models list --all' shows what there is"
        return f"did you mean {printable(near[0])}? {advice}" if near else advice


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith(("~", "."))


def _by_name(entry: ModelEntry) -> str:
    return entry.name.lower()
