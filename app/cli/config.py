"""`qchat config`: every setting with where it came from, the path of the file, and an editor for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from app.cli.terminal import escape_controls, write_json
from app.errors import QChatError
from app.settings import SERVERS, ServerTable, Value, load_settings, paths, private_dir, read_config, shipped_config_dir


@click.group()
def config() -> None:
    """Show settings and where they come from; edit them."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(as_json: bool) -> None:
    """Show every setting, its value and where it came from."""
    settings = load_settings()
    rows = [(key, value, settings.sources[key]) for key, value in settings.items()]
    for server in settings.servers.values():
        rows += _server_rows(server)
    if as_json:
        write_json({key: {"value": value, "source": source} for key, value, source in rows})
        return
    width = max(len(key) for key, _, _ in rows)
    for key, value, source in rows:
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        click.echo(escape_controls(f"{key:<{width}} = {text}  ({source})".replace("\n", "\\n")))


def _server_rows(server: ServerTable) -> Iterator[tuple[str, Value, str]]:
    """What is known of a server, and whether it has a key; the key is not shown."""
    from app.backends.keys import find_key  # noqa: PLC0415 - where there are servers

    for key, value in server.items():
        if key != "key":
            yield f"{SERVERS}.{server.name}.{key}", value, server.file
    name = f"{SERVERS}.{server.name}.key"
    try:
        found = find_key(server)
    except QChatError as error:
        yield name, "not known", error.message
    else:
        yield name, "set" if found else "not set", found.origin if found else "default"


@config.command()
def path() -> None:
    """Print the path of your config file, whether it exists or not."""
    click.echo(escape_controls(str(paths().config_file)))


@config.command()
def edit() -> None:
    """Open your config file in $VISUAL or $EDITOR and check it afterwards.

    A missing file is made first, with every setting as a comment that shows its default.
    """
    from app.ui.editor import editor, run_editor  # noqa: PLC0415 - for this command only

    editor()  # there is one, before a file is made for it
    file = paths().config_file
    if not file.exists():
        private_dir(file.parent)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(commented_defaults())
    run_editor(file)
    read_config(file)
    click.echo(escape_controls(f"{file} is fine"), err=True)


def commented_defaults() -> str:
    """defaults.toml with its settings as comments. Table headers stay, so that any line can simply be uncommented."""
    text = (shipped_config_dir() / "defaults.toml").read_text(encoding="utf-8")
    kept = ("#", "[")
    lines = [line if not line or line.startswith(kept) else f"# {line}" for line in text.splitlines()]
    return "\n".join(lines) + "\n"
