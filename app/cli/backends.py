"""`qchat backends`: where answers can come from, whether it is there, and the keys that it wants."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from app.cli import suggest
from app.cli.terminal import escape_controls, is_terminal, write_json
from app.errors import UsageError, nearest, printable
from app.settings import key_variable, load_settings, paths

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from app.backends.probe import Look
    from app.settings import Settings

EXIT_UNREACHABLE = 3
_WITHIN_S = 5.0


class _Group(click.Group):
    """`qchat backends NAME` and `qchat backends` are `qchat backends list` with the same."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else ["list", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return [*super().shell_complete(ctx, incomplete), *suggest.backends(ctx, None, incomplete)]


@click.group(cls=_Group)
def backends() -> None:
    """Show backends and servers, whether they can be used, and keep their keys."""


@backends.command("list")
@click.argument("names", nargs=-1, metavar="NAME...", shell_complete=suggest.backends)
@click.option("--check", is_flag=True, help="Ask each server for one token; it may have to load a model for that.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, 3600, min_open=True),
    default=_WITHIN_S,
    metavar="SECONDS",
    show_default=True,
    help="How long a server may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def list_backends(ctx: click.Context, /, names: tuple[str, ...], check: bool, timeout: float, as_json: bool) -> None:
    """Show each backend that is installed and each server of the config file, or only those that are named.

    A server is asked for its models: that tells whether it is there, and how far away. "list" may be left out. The exit
    code is 3 if one that was named cannot be used.
    """
    settings = load_settings()
    looks = asyncio.run(_look(settings, names, timeout, check))
    if as_json:
        write_json([asdict(look) | {"usable": look.usable} for look in looks])
    else:
        _print(looks, check)
    ctx.exit(EXIT_UNREACHABLE if names and not all(look.usable for look in looks) else 0)


@backends.command()
@click.argument("name", shell_complete=suggest.servers)
def login(name: str) -> None:
    """Keep the API key of the server NAME in the keyring of this system.

    The key is typed without being shown, or read from standard input where that is no terminal.
    """
    from app.backends.keys import check_key, store_key  # noqa: PLC0415 - --help does without

    _known(load_settings(), name)
    if is_terminal(sys.stdin):
        key = click.prompt(f"API key of {name}", hide_input=True, err=True)
    else:
        key = sys.stdin.readline() if sys.stdin else ""
    store_key(name, check_key(key, "what was given"))
    click.echo(f"qchat: the key of {name} is kept in the keyring; {key_variable(name)} comes before it", err=True)


@backends.command()
@click.argument("name", shell_complete=suggest.servers)
@click.pass_context
def logout(ctx: click.Context, /, name: str) -> None:
    """Take the API key of the server NAME out of the keyring."""
    from app.backends.keys import forget_key  # noqa: PLC0415 - --help does without

    forgotten = forget_key(name)
    kept = "the key of {} is forgotten" if forgotten else "the keyring holds no key of {}"
    click.echo(escape_controls(f"qchat: {kept.format(name)}"), err=True)
    ctx.exit(0 if forgotten else 1)


async def _look(settings: Settings, names: Sequence[str], within_s: float, check: bool) -> list[Look]:
    """A look at each of `names`, or at everything: servers all at once, in the order of the file."""
    from app.backends.probe import look_at_backend, look_at_server  # noqa: PLC0415 - --help does without
    from app.backends.registry import backend_names  # noqa: PLC0415
    from app.hub.library import Library  # noqa: PLC0415

    for name in names:
        _known(settings, name, backend_names())
    wanted = names or [*(name for name in backend_names() if name not in settings.servers), *settings.servers]
    contacted = [name for name in wanted if name in settings.servers or (names and name != "local")]
    looks = dict(
        zip(
            contacted,
            await asyncio.gather(*(look_at_server(settings, name, within_s, try_it=check) for name in contacted)),
            strict=True,
        )
    )
    here = [entry.name for entry in Library(paths().models_dir).list()]
    return [looks[name] if name in looks else look_at_backend(name, here) for name in wanted]


def _known(settings: Settings, name: str, installed: Sequence[str] = ()) -> None:
    """Raises UsageError for what is neither a server nor, of those that are given, an installed backend."""
    known = [*settings.servers, *installed]
    if name not in known:
        near = nearest(name, known)
        listed = ", ".join(known) or "none: [servers.NAME] in the config file makes one, see 'qchat config edit'"
        hint = f"did you mean {near}?" if near else f"there are: {listed}"
        raise UsageError(f"no server is called {printable(name)}", hint)


def _print(looks: Sequence[Look], check: bool) -> None:
    from app.cli.table import print_table  # noqa: PLC0415 - for this only

    head = ["NAME", "KIND", "AT", "KEY", "MODELS", "LATENCY", *(["STREAMS"] if check else []), "STATE"]
    print_table(head, [_row(look, check) for look in looks])
    for look in looks:
        if look.problem:
            for line in filter(None, (f"{look.name}: {look.problem}", look.hint and f"  {look.hint}")):
                click.echo(escape_controls(line), err=True)


def _row(look: Look, check: bool) -> list[str]:
    streams = "" if look.streams is None else f"after {look.first_token_s:.2f} s" if look.first_token_s else "no"
    cells: list[Any] = [
        look.name,
        look.kind,
        look.at,
        look.key or "",
        "" if look.models is None else len(look.models),
        "" if look.latency_s is None else f"{1000 * look.latency_s:,.0f} ms",
        *([streams] if check else []),
        look.state,
    ]
    return [str(cell) for cell in cells]
