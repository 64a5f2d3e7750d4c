"""Models on disk: the catalogue, the library of what is here, and the ways to fetch more.

What fetches a model is imported when one is fetched: a list of names has to appear at the press of a key.
"""

from __future__ import annotations

from pathlib import Path

from app.errors import ModelNotFoundError
from app.hub.catalogue import CatalogueEntry, load_catalogue, starter
from app.hub.library import Library, ModelEntry, library_of_this_machine
from app.hub.transfer import Notify, OnProgress, ignore_progress

__all__ = ["Library", "ModelEntry", "ensure_model", "first_fetch", "library_of_this_machine", "load_catalogue"]


def first_fetch(name: str, library: Library) -> CatalogueEntry | None:
    """What `ensure_model` would fetch by itself: the starter, where that is asked for and qchat has no model yet.

    What other programs keep does not count: it is there to be chosen, and may not be for chatting at all.
    """
    first = starter()
    return first if name == first.name and not library.own() else None


def ensure_model(
    name: str, library: Library, on_progress: OnProgress = ignore_progress, notify: Notify = lambda _: None
) -> Path:
    """The file of the model `name`, fetching the starter if that is what is asked for and there is no model yet.

    Only a first run fetches by itself, and says so through `notify`; anyone who has models is told how to get another.
    """
    try:
        return library.find(name)
    except ModelNotFoundError:
        from app.hub.download import pull  # noqa: PLC0415 - numpy

        first = first_fetch(name, library)
        if first is None:
            raise
        notify(
            f"no model on this disk yet: fetching the starter {first.name} ({first.licence}, "
            f"{first.bytes / 1e6:.0f} MB) from {first.origin}"
        )
        return pull(first.name, library, on_progress, notify).path
