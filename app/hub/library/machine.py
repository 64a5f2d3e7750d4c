"""The library of this machine, as the settings have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from app.errors import SettingsError, printable
from app.hub.catalogue.entries import STORES, load_catalogue
from app.hub.library import huggingface, lmstudio, ollama
from app.hub.library.entry import Store
from app.hub.library.folder import FolderStore
from app.hub.library.library import Library
from app.settings import FOLDERS, Settings, load_settings, paths

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]+")  # two characters at least: C:\\x is a path on Windows


def library_of_this_machine(settings: Settings | None = None) -> Library:
    """The models folder, the [folders] of the settings and, unless they are not wanted, other programs' stores.

    SettingsError for a folder whose name is not allowed.
    """
    settings = settings or load_settings()
    stores: list[Store] = list(_folders(settings))
    if settings.other_stores:
        stores += [
            huggingface.HuggingFaceStore(huggingface.cache_folder()),
            lmstudio.lm_studio_store(lmstudio.models_folder()),
            ollama.OllamaStore(ollama.models_folder()),
        ]
    return Library(paths().models_dir, stores)


def _folders(settings: Settings) -> Iterator[FolderStore]:
    families = {name.partition(":")[0] for name in load_catalogue()}
    for name, folder in settings.folders.items():
        if not _NAME.fullmatch(name) or name in STORES | families:
            where = settings.sources[FOLDERS + name]
            taken = "is taken" if name in STORES | families else "is not letters, digits, dots and dashes"
            raise SettingsError(f"{where}: the folder name {printable(name)} {taken}", "choose another in [folders]")
        yield FolderStore(name, f"your folder {name}", Path(folder).expanduser())
