"""Backends by name, through entry points, so that a plugin is installed with pip and loaded only when it is asked for.

A plugin declares `NAME = "module:function"` in the entry point group `qchat.backends`; the function is a
`BackendFactory`. The built-in ones are declared the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.backends.base import Backend, BackendFactory, Notice, Progress
from app.errors import BackendError, UsageError, printable
from app.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "qchat.backends"


def backend_names() -> list[str]:
    """The names of all backends that are installed, without loading any."""
    return sorted(_installed().names)


def open_backend(settings: Settings, report: Callable[[Progress | Notice], None]) -> Backend:
    """Open the backend that the settings name, for the model that they name.

    Raises UsageError for a name that is not installed, BackendError for a plugin that cannot be loaded, and whatever
    the backend raises.
    """
    found = _installed().select(name=settings.backend)
    if not found:
        known = ", ".join(backend_names()) or "none: install qchat with pip, so that its entry points are known"
        raise UsageError(f"there is no backend {printable(settings.backend)}", f"installed: {known}")
    entry = next(iter(found))
    try:
        factory: BackendFactory = entry.load()
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"the backend {printable(settings.backend)} cannot be loaded: {printable(str(error), 200)}",
            f"it comes from {printable(entry.value)}",
        ) from error
    return factory(settings, report)


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and not needed to draw a screen

    return entry_points(group=GROUP)
