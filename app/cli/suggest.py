"""What a shell can offer while a command is typed: models, chats, and the allowed values of a setting.

This runs at the press of a key: it reads names, never the header of a model file, it changes nothing, and where
something cannot be read it offers nothing. A name that holds control characters is not offered, because a shell would
send them to the terminal; what is said about a name is escaped in `completion`. The functions are for `shell_complete`
of click's parameters. Every command line imports this file, and only a shell that asks needs what is imported inside.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from app.settings import ServerTable

CHATS = 200  # offered at most, the latest

Named = Iterable[tuple[str, str]]  # values with what is said about each


def models(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The models on this disk, then the rest of the catalogue and those that servers are known to have; or a file."""
    here = list(_here())
    return _beginning_with(incomplete, [*here, *_to_fetch(here), *_at_servers()]) or _file(incomplete)


def models_here(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The models on this disk; or a file."""
    return _beginning_with(incomplete, _here()) or _file(incomplete)


def models_to_fetch(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The models of the catalogue that are not on this disk; or a file."""
    return _beginning_with(incomplete, _to_fetch(_here())) or _file(incomplete)


def backends(_ctx: click.Context, _param: click.Parameter | None, incomplete: str) -> list[CompletionItem[str]]:
    """The servers, then the backends that are installed."""
    from app.backends.registry import backend_names

    servers = list(_servers())
    taken = {name for name, _ in servers}
    others = ((name, "installed") for name in backend_names() if name not in taken)
    return _beginning_with(incomplete, [*servers, *others])


def servers(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The servers of the config file."""
    return _beginning_with(incomplete, _servers())


def chats(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The ids of the saved chats with their titles, the latest first."""
    return _beginning_with(incomplete, _chats())


def chats_or_new(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The word that begins a chat, then the saved ones."""
    return _beginning_with(incomplete, [("new", "begin a chat"), *_chats()])


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Files, as the shell itself offers them."""
    return _file(incomplete)


def values(key: str, incomplete: str) -> list[CompletionItem[str]]:
    """The allowed values of a setting, where they can be listed."""
    from app.settings import OWN, RULES

    rule = RULES[key]
    own = [(OWN, "what the model itself says")] if rule.own else []
    return _beginning_with(incomplete, [*((choice, "") for choice in rule.choices), *own])


def _here() -> Named:
    import contextlib

    from app.cli.progress import human_bytes
    from app.errors import SettingsError
    from app.hub.library import library_of_this_machine

    with contextlib.suppress(SettingsError):
        for entry in library_of_this_machine().list():
            where = "on this disk" if entry.is_ours else entry.place
            yield entry.name, f"{where}, {human_bytes(entry.size)}"


def _to_fetch(here: Named) -> Named:
    import contextlib

    from app.cli.progress import human_bytes
    from app.errors import SettingsError
    from app.hub.catalogue import load_catalogue

    names_here = {name for name, _ in here}
    with contextlib.suppress(SettingsError):
        for entry in load_catalogue().values():
            if entry.name not in names_here:
                size = f", {human_bytes(entry.bytes)}" if entry.bytes else ""
                yield entry.name, f"to be fetched{size}"


def _servers() -> Named:
    for table in _tables():
        yield table.name, table.shown_url


def _at_servers() -> Named:
    """Nobody is asked: each server with the model that its table names."""
    for table in _tables():
        yield f"{table.name}/{table.model}", f"at {table.shown_url or table.name}"


def _tables() -> Iterable[ServerTable]:
    from app.errors import SettingsError
    from app.settings import paths, read_config

    try:
        return read_config(paths().config_file).servers.values()
    except SettingsError:  # there is no file, or one that the command itself will complain about
        return ()


def _chats() -> Named:
    """Not through the store, which makes, repairs and migrates its file: a key that is pressed must not do that."""
    import contextlib
    import sqlite3

    from app.settings import paths

    with contextlib.suppress(sqlite3.Error):
        file = (paths().data_dir / "sessions.db").absolute()
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", timeout=0.05, uri=True)
        with contextlib.closing(connection):
            query = "SELECT id, title FROM session WHERE deleted IS NULL ORDER BY updated DESC LIMIT ?"
            return connection.execute(query, (CHATS,)).fetchall()
    return ()


def _beginning_with(incomplete: str, named: Named) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    fitting = ((value, text) for value, text in named if value.startswith(incomplete) and value.isprintable())
    return [CompletionItem(value, help=text) for value, text in fitting]


def _file(incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
