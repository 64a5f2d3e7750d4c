"""The models that a person can choose from, as rows: those on this disk, the catalogue, and where others come from.

Rows are made from names and sizes at once; what stands in a file's header, some thousandths of a second to read where
the vocabulary is large, is added by `completed`. Text in a row is as the file has it: escape it before showing it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.errors import ModelFileError
from app.hub.catalogue import CatalogueEntry, load_catalogue
from app.hub.fit import Fit, kv_bytes_per_token
from app.hub.library import Library, ModelEntry, Origin
from app.settings import LOCAL, ServerTable

if TYPE_CHECKING:
    from app.hub.catalogue.repository import Repository

Place = Literal["disk", "unfinished", "repository", "offer", "catalogue", "server", "backend"]


OWN_BACKENDS = (LOCAL, "openai", "ollama")


@dataclass(frozen=True)
class Choice:
    """One row. Which facts there are depends on the place; `size` is in bytes and approximate in the catalogue."""

    place: Place
    # what --model takes, SERVER/MODEL at a server; what to pull if it is not here; of a backend, what --backend takes
    name: str
    size: int = 0
    path: Path | None = None
    linked_to: Path | None = None  # a file that is used where it lies
    origin: Origin = "qchat"  # whose it is, of what is on this disk
    store: str = "qchat"  # the same for a person; of an offer, the repository
    label: str = ""  # what is shown in place of the name, where the name says more than is needed there
    done: int = 0  # bytes that are here of what is not complete
    best: bool = False  # of the offers of a repository, the one for this machine
    title: str = ""  # the name that the file gives itself
    architecture: str = ""
    quantisation: str = ""
    context: int | None = None  # tokens
    licence: str = ""
    note: str = ""
    fit: Fit | None = None
    problem: str = ""  # why a file cannot run, or a server cannot be asked
    complete: bool = True  # False until the header of a file has been read, or a server has answered

    @property
    def usable(self) -> bool:
        """Whether it can be chosen, as far as is known."""
        return self.place != "backend" and not self.problem

    @property
    def key(self) -> str:
        """Names this row among all."""
        return f"{self.place} {self.path or self.name}"


def on_disk(entries: Iterable[ModelEntry]) -> list[Choice]:
    """A row, not yet complete, for each model of the library."""
    return [
        Choice(
            "disk",
            e.name,
            e.size,
            e.path,
            e.linked_to,
            e.origin,
            e.place,
            "" if e.is_ours else e.name.partition(":")[2],
            problem=e.problem,
            complete=bool(e.problem),
        )
        for e in entries
    ]


def completed(choice: Choice, kv: str, ctx: int, free: int | None) -> Choice:
    """`choice` with what its file says. A file that cannot be read or run gets its `problem`.

    `kv` and `ctx` are the settings of those names, `free` the bytes of memory that a model could have.
    """
    from app.hub.describe import outline  # noqa: PLC0415 - numpy

    assert choice.path is not None
    if choice.problem:
        return choice
    try:
        facts = outline(choice.path, kv)
    except ModelFileError as error:
        return dataclasses.replace(choice, problem=error.message, complete=True)
    known = dataclasses.replace(
        choice,
        title=facts["name"] or "",
        licence=facts["licence"] or "",
        architecture=facts["architecture"] or "",
        quantisation=facts["quantisation"],
        complete=True,
    )
    if not facts["runnable"]:
        return dataclasses.replace(known, problem=facts["problem"])
    context, memory = facts["network"]["context"], facts["memory"]
    used = min(ctx or context, context)
    fit = Fit(memory["weights_bytes"], memory["kv_bytes_per_token"], used, free)
    return dataclasses.replace(known, context=context, fit=fit)


def unfinished(library: Library) -> list[Choice]:
    """A row for each download that is not complete and can be gone on with."""
    from app.hub.download.kept import kept_parts  # noqa: PLC0415 - reads the disk, so it is not needed for a list

    return [
        Choice(
            "unfinished",
            part.source,
            part.total or 0,
            label=part.name,
            done=part.done,
            problem="another qchat is fetching it" if part.busy else "",
        )
        for part in kept_parts(library)
        if part.source and part.done
    ]


def offers_of(repository: Repository) -> list[Choice]:
    """A row for each quantisation of a repository, the best first."""
    rows = [
        Choice(
            "offer",
            repository.source(offer),
            offer.size,
            store=f"hf:{repository.name}",
            label=offer.file,
            quantisation=offer.kind,
            note=f"{offer.parts} parts" if offer.parts > 1 else "",
            fit=offer.fit,
            problem=offer.problem,
            best=offer.best,
        )
        for offer in repository.offers
    ]
    return sorted(rows, key=lambda row: not row.best)


def in_catalogue(here: Iterable[Choice], kv: str, ctx: int, free: int | None) -> list[Choice]:
    """A row for each model of the catalogue that is not `here`, neither whole nor in part, the starter first."""
    names = {choice.name for choice in here}
    entries = sorted(load_catalogue().values(), key=lambda entry: not entry.starter)
    return [_catalogue_row(entry, kv, ctx, free) for entry in entries if entry.name not in names]


def _catalogue_row(entry: CatalogueEntry, kv: str, ctx: int, free: int | None) -> Choice:
    fit = None
    if entry.bytes and entry.context and entry.cache:
        per_token = kv_bytes_per_token(**entry.cache, kv=kv)
        fit = Fit(entry.bytes, per_token, min(ctx or entry.context, entry.context), free)
    return Choice(
        "catalogue",
        entry.name,
        entry.bytes,
        context=entry.context or None,
        licence=entry.licence,
        note=entry.note,
        fit=fit,
    )


def of_servers(servers: Iterable[ServerTable]) -> list[Choice]:
    """A row for each server before it has answered: its own model, which can be chosen already."""
    return [Choice("server", f"{each.name}/{each.model}", note=each.shown_url, complete=False) for each in servers]


def at_server(server: ServerTable, models: Iterable[str]) -> list[Choice]:
    """The rows of a server that has answered, its own model first."""
    names = sorted(models, key=lambda model: model != server.model)
    rows = [Choice("server", f"{server.name}/{name}", note=server.shown_url) for name in names]
    return rows or [unreachable_server(server, "it has no model yet")]


def unreachable_server(server: ServerTable, problem: str) -> Choice:
    """The row of a server that cannot be used now."""
    return Choice("server", f"{server.name}/{server.model}", note=server.shown_url, problem=problem)


def of_backends(names: Iterable[str]) -> list[Choice]:
    """A row for each plugin; their models are not asked for here. Those of qchat answer as "local" or for a server."""
    return [Choice("backend", name) for name in names if name not in OWN_BACKENDS]


def matching(choices: Sequence[Choice], text: str) -> list[Choice]:
    """The rows that have every word of `text` somewhere in what they show, in any case."""
    words = text.casefold().split()
    return [choice for choice in choices if all(word in _searched(choice) for word in words)]


def _searched(choice: Choice) -> str:
    shown = (choice.name, choice.label, choice.title, choice.quantisation, choice.licence, choice.note, choice.store)
    return " ".join(shown).casefold()
