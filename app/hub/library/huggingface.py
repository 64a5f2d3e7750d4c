"""The cache of the Hugging Face libraries, read where it lies.

Layout: https://huggingface.co/docs/hub/local-cache. A repository has one folder; every revision that was fetched is a
folder of links into `blobs`, where a large file is named by its SHA-256.

    models--ORG--REPO/refs/main                    the commit that is current
    models--ORG--REPO/snapshots/COMMIT/x.gguf  ->  ../../blobs/SHA256
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.hub.library.entry import ModelEntry
from app.hub.library.folder import entry_of, files_below, models_in

_REPOSITORY = re.compile(r"models--(?P<org>(?:(?!--).)+)--(?P<repo>.+)")
_SHOWN = 8  # letters of a commit


def cache_folder(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Path:
    """Where the cache is: HF_HUB_CACHE (once HUGGINGFACE_HUB_CACHE), HF_HOME/hub, or below the user's caches."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    if environment.get("HF_HOME"):
        return Path(environment["HF_HOME"]).expanduser() / "hub"
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches).expanduser() if caches else (home or Path.home()) / ".cache") / "huggingface" / "hub"


@dataclass(frozen=True)
class HuggingFaceStore:
    """Models are named as they are fetched: hf:ORG/REPO/FILE, without .gguf.

    That is the file of the current revision or, where this has none of the name, of the one fetched last. A file of
    the same name with other content is named hf:ORG/REPO@COMMIT/FILE.
    """

    root: Path
    prefix: str = "hf"
    place: str = "Hugging Face cache"
    remove_hint: str = "'hf cache' removes what is in that cache"

    def entries(self) -> Iterator[ModelEntry]:
        """See `Store.entries`."""
        for folder in _folders(self.root):
            named = _REPOSITORY.fullmatch(folder.name)
            if named is not None:
                yield from self._in_repository(folder, f"{named['org']}/{named['repo']}")

    def _in_repository(self, folder: Path, repository: str) -> Iterator[ModelEntry]:
        current = _commit(folder / "refs" / "main")
        contents: dict[str, set[tuple[Path, ...]]] = {}  # of each name: the blobs of every model that has it
        for snapshot in sorted(_folders(folder / "snapshots"), key=lambda path: _age(path, current)):
            for found in models_in(files_below(snapshot)):
                seen = contents.setdefault(found.name, set())
                revision = f"@{snapshot.name[:_SHOWN]}" if seen else ""
                blobs = tuple(path.resolve() for path in found.files)
                if blobs not in seen:
                    seen.add(blobs)
                    name = f"{self.prefix}:{repository}{revision}/{found.name}"
                    yield entry_of(found, name, "huggingface", self.place)


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []


def _age(snapshot: Path, current: str) -> tuple[bool, float, str]:
    """Sorts the current revision first, then the one fetched last."""
    return snapshot.name != current, -snapshot.stat().st_mtime, snapshot.name


def _commit(reference: Path) -> str:
    try:
        return reference.read_text().strip()
    except (OSError, ValueError):
        return ""
