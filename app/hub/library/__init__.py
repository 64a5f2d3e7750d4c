"""The library: what models are on this disk, wherever they lie, and under which names."""

from app.hub.library.entry import ModelEntry, Origin, Store
from app.hub.library.library import Library
from app.hub.library.machine import library_of_this_machine

__all__ = ["Library", "ModelEntry", "Origin", "Store", "library_of_this_machine"]
