"""Backends by name, through entry points, so that a plugin is installed with pip and loaded only when it is asked for.

A plugin declares `NAME = "module:function"` in the entry point group `qchat.backends`; the function is a
`BackendFactory`. The built-in ones are declared the same way. What a plugin raises that is no QChatError becomes a
BackendError with its name, so that it can spoil a reply but not the program (`plugin.Guarded`). docs/plugins.md tells
how one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from app.backends.base import Backend, BackendFactory, Notice, Progress
from app.errors import BackendError, UsageError, nearest, printable
from app.settings import ServerTable, Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "qchat.backends"
OWN_PACKAGE = "app."


def backend_names() -> list[str]:
    """The names of all backends that are installed, without loading any."""
    return sorted(_installed().names)


def open_backend(settings: Settings, report: Callable[[Progress | Notice], None]) -> Backend:
    """Open the backend that the settings name, or the one that their server speaks to, for the model that they name.

    Raises UsageError for a name that is neither a server nor installed, BackendError for a plugin that cannot be loaded
    or opened, and the QChatError that the backend raises.
    """
    entry = _entry(settings.backend, settings.servers)
    factory = load(entry)
    if entry.value.startswith(OWN_PACKAGE):
        return factory(settings, report)
    from app.backends.plugin import Guarded, blaming  # noqa: PLC0415 - for a plugin only

    with blaming(entry.name):
        backend = factory(settings, report)
    return Guarded(backend, entry.name)


def load(entry: EntryPoint) -> BackendFactory:
    """The factory of a backend. Raises BackendError, with its name and where it comes from."""
    where = f"it comes from {printable(entry.value)}{_distribution(entry)}"
    try:
        factory: BackendFactory = entry.load()
    except (Exception, SystemExit) as error:  # whatever its modules do when they are imported
        reason = f"{type(error).__name__}: {printable(str(error), 200)}"
        raise BackendError(f"the backend {printable(entry.name)} cannot be loaded: {reason}", where) from error
    if not callable(factory):
        raise BackendError(f"the backend {printable(entry.name)} is not a function that opens one", where)
    return factory


def installed(name: str) -> EntryPoint | None:
    """The installed backend of that name, not loaded."""
    return next(iter(_installed().select(name=name)), None)


def _entry(name: str, servers: Mapping[str, ServerTable]) -> EntryPoint:
    server = servers.get(name)
    kind = server.kind if server else name
    entry = installed(kind)
    if entry:
        return entry
    names = backend_names()
    known = ", ".join(names) or "none: install qchat with pip, so that its entry points are known"
    if server:
        what, hint = f"servers.{name}.kind = {printable(kind)}: no such backend is installed", f"installed: {known}"
    else:
        near = nearest(name, [*servers, *names])
        what = f"there is no server or backend {printable(name)}"
        hint = f"did you mean {near}?" if near else f"installed: {known}"
        hint += f"; servers: {', '.join(servers)}" if servers and not near else ""
    raise UsageError(what, hint)


def _distribution(entry: EntryPoint) -> str:
    return f" of {printable(entry.dist.name)} {printable(entry.dist.version)}" if entry.dist else ""


def _installed() -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and not needed to draw a screen

    return entry_points(group=GROUP)
