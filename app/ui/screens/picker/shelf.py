"""What the model picker can show: rows of this disk, of a repository that was asked for, of the catalogue, of backends.

Everything that is read here is quick; what takes long, the headers of files and an answer of the hub, is brought by the
threads of the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.backends.registry import backend_names
from app.hub.catalogue.repository import Repository, repository_named
from app.hub.choices import Choice, in_catalogue, of_backends, of_servers, offers_of, on_disk, unfinished
from app.hub.library import Library
from app.settings import Settings


class Shelf:
    """The rows of `library` with what is known of them; `free` is the memory that a model could have, in bytes."""

    def __init__(self, library: Library, settings: Settings, free: int | None) -> None:
        self._library = library
        self._settings = settings
        self.free = free
        self._here: list[Choice] = []
        self._catalogue: list[Choice] = []
        self._backends = of_backends(backend_names())
        self._offers: list[Choice] = []
        self._at_servers = {name: of_servers([table]) for name, table in settings.servers.items()}
        self._asked = ""  # the repository of the offers

    def read(self) -> list[Choice]:
        """Look at the disk again, and return the rows whose files are not described yet."""
        known = {row.path: row for row in self._here if row.complete}
        rows = on_disk(self._library.list())
        rows = [known[row.path] if row.path in known and known[row.path].size == row.size else row for row in rows]
        partly = unfinished(self._library)
        self._here = [*rows, *partly]
        kv, ctx = self._settings.kv, self._settings.ctx
        self._catalogue = in_catalogue(self._here, kv, ctx, self.free)
        return [row for row in rows if not row.complete]

    def described(self, choice: Choice) -> None:
        """Take the row of a file that has been read."""
        self._here = [choice if row.key == choice.key else row for row in self._here]

    def answered(self, server: str, rows: list[Choice]) -> None:
        """Take the models that a server has told."""
        self._at_servers[server] = rows

    def offer(self, repository: Repository) -> list[Choice]:
        """Take what a repository offers in place of what was asked for before; its rows."""
        self._asked, self._offers = repository.name, offers_of(repository)
        return self._offers

    def forget_offers(self) -> None:
        """Have the repository that was asked for last asked for again."""
        self._asked, self._offers = "", []

    def rows(self, wanted: str) -> Sequence[Choice]:
        """All rows. `wanted`, what is typed, may name a repository that can be asked for."""
        name = repository_named((wanted.split() or [""])[0])
        ask = [Choice("repository", f"hf:{name}")] if name and name != self._asked else []
        servers = (row for rows in self._at_servers.values() for row in rows)
        return [*self._here, *ask, *self._offers, *self._catalogue, *servers, *self._backends]
