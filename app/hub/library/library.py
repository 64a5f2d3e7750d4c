"""The models on this disk: the models folder, folders that a person added, and what other programs keep."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app.errors import ModelNotFoundError, QChatError, UsageError, printable
from app.hub.catalogue import load_catalogue
from app.hub.library.entry import ModelEntry, Store
from app.hub.library.folder import SUFFIX, Found, models_in
from app.hub.records import forget
from app.settings import private_dir


class Library:
    """The models folder, and stores that are used where they lie.

    Names are resolved in this order: the name of a model in the models folder or a file name there with or without
    .gguf, the name of a model in a store, a path. Nothing is remembered between two questions: what is told is what is
    on the disk now.
    """

    def __init__(self, models_dir: Path, stores: Sequence[Store] = ()) -> None:
        self.models_dir = models_dir
        self.stores = tuple(stores)

    @property
    def incoming_dir(self) -> Path:
        """Where a model is gathered before it is checked: on the same file system, so that moving it is atomic."""
        return self.models_dir / ".incoming"

    def prepare(self) -> None:
        """Make the folders, for this user alone."""
        private_dir(self.models_dir)
        private_dir(self.incoming_dir)

    def own(self) -> list[ModelEntry]:
        """The models of the models folder, by name."""
        try:
            paths = [path for path in _models_beside(self.models_dir) if path.name[0] != "."]
        except OSError:
            return []
        known = {entry.file_name: name for name, entry in load_catalogue().items()}
        files = sorted((path.name, path) for path in paths if path.is_file() or path.is_symlink())
        entries: dict[str, ModelEntry] = {}
        for found in models_in(files):
            entry = self._own_entry(found, known.get(f"{found.name}{SUFFIX}", found.name))
            if entry.name in entries:  # a file that is called as the catalogue calls another
                entry = self._own_entry(found, entry.path.name)
            elif self._store_of(entry.name):
                entry = self._own_entry(found, str(entry.path))
            entries[entry.name] = entry
        return sorted(entries.values(), key=_by_name)

    def list(self) -> list[ModelEntry]:
        """Every model: first those of the models folder, then store by store, each by name."""
        entries = self.own()
        for store in self.stores:
            entries += sorted(store.entries(), key=_by_name)
        return entries

    def entry(self, path: Path) -> ModelEntry:
        """The entry of a file, wherever it lies; one outside the library is called by its file name."""
        for entry in self.list():
            if path in (entry.path, *entry.files):
                return entry
        found = Found(path.name.removesuffix(SUFFIX), (path,))
        return self._own_entry(found, found.name)

    def get(self, name_or_path: str, *, broken: bool = False) -> ModelEntry:
        """The model that a name or path means; ModelNotFoundError says what to do instead.

        broken: whether one is wanted whose files are known not to be there.
        """
        entry = self._lookup(name_or_path)
        if entry is not None and broken:
            return entry
        if entry is not None:
            shown = printable(entry.name)
            if entry.linked_to is not None and not entry.path.exists():
                raise ModelNotFoundError(
                    f"the model {shown} is a link to {printable(str(entry.linked_to))}, which is gone",
                    f"'qchat models remove {shown}' forgets it",
                )
            if entry.problem:
                raise ModelNotFoundError(f"the model {shown} ({entry.place}) cannot be used: {entry.problem}")
            return entry
        path = Path(name_or_path).expanduser()
        if path.is_file():
            return self.entry(path.absolute())
        raise ModelNotFoundError(f"no model {printable(name_or_path)} on this disk", self._advice(name_or_path))

    def find(self, name_or_path: str) -> Path:
        """The file of `get`."""
        return self.get(name_or_path).path

    def remove(self, name: str) -> ModelEntry:
        """Delete a model of the models folder and return what it was; a file registered in place stays where it is.

        UsageError for a model of another place: what qchat did not put there it does not remove.
        """
        entry = self._lookup(name)
        if entry is None:
            raise ModelNotFoundError(
                f"no model {printable(name)} in {printable(str(self.models_dir))}", "'qchat models list' shows them"
            )
        store = self._store_of(entry.name)
        if store is not None:
            raise UsageError(
                f"{printable(entry.name)} is not qchat's to remove: {store.place}, {printable(str(entry.path))}",
                store.remove_hint,
            )
        for path in entry.files:
            try:
                path.unlink()
            except OSError as error:
                raise QChatError(f"cannot remove {printable(str(path))}: {error.strerror}") from error
            forget(self.models_dir, path.name)
        return entry

    def _own_entry(self, found: Found, name: str) -> ModelEntry:
        path = found.files[0]
        target = path.readlink() if path.is_symlink() else None
        linked = target is not None and found.missing and path.exists()  # the other parts lie beside the target
        if linked:
            beside = models_in((other.name, other) for other in _models_beside(path.resolve().parent))
            found = next((model for model in beside if path.resolve() in model.files), found)
        files = (path,) if linked else found.files
        return ModelEntry(name, path, found.size(), target, files=files, problem=found.problem)

    def _lookup(self, name: str) -> ModelEntry | None:
        store = self._store_of(name)
        entries = list(self.own() if store is None else store.entries())
        exact = (entry for entry in entries if entry.name == name)
        return next(exact, None) or next((entry for entry in entries if name in _names(entry)), None)

    def _store_of(self, name: str) -> Store | None:
        prefix, colon, _ = name.partition(":")
        return next((store for store in self.stores if colon and store.prefix == prefix), None)

    def _advice(self, name: str) -> str:
        if _is_path(name) and self._store_of(name) is None:
            return "check the path"
        if name in load_catalogue():
            return f"'qchat models pull {name}' fetches it"
        here = [entry.name for entry in self.list()]
        near = _same_ending(name, here) or difflib.get_close_matches(name, [*here, *load_catalogue()], n=1, cutoff=0.5)
        advice = "'qchat models list --all' shows what there is"
        return f"did you mean {printable(near[0])}? {advice}" if near else advice


def _names(entry: ModelEntry) -> Iterator[str]:
    """What a model answers to beside its name: that with .gguf, and the names of its files."""
    yield f"{entry.name}{SUFFIX}"
    folder = entry.name.rpartition("/")[0]
    for path in entry.files or (entry.path,):
        if entry.is_ours:
            yield from (path.name, path.stem)
        elif folder:
            yield f"{folder}/{path.name}"


def _same_ending(name: str, names: Iterable[str]) -> list[str]:
    """The names in stores whose last step is `name`: hf:ORG/REPO/FILE for FILE."""
    wanted = name.removesuffix(SUFFIX).casefold()
    return [each for each in names if each.casefold().endswith((f"/{wanted}", f":{wanted}"))]


def _models_beside(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix.lower() == SUFFIX)


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith(("~", "."))


def _by_name(entry: ModelEntry) -> str:
    return entry.name.lower()
