"""`qchat models`: what is on this disk, what can be fetched, what a file is, whether it is whole, and removing one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from app.cli import model_text as text
from app.cli import suggest
from app.cli.download import parts, pull
from app.cli.progress import ProgressLine, human_bytes
from app.cli.repository import lists_repository
from app.cli.table import print_table
from app.cli.terminal import escape_controls, write_json
from app.hub.catalogue import load_catalogue
from app.hub.library import Library, library_of_this_machine
from app.settings import load_settings

_Command = Callable[..., Any]


def _json_option(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def _library() -> Library:
    return library_of_this_machine()


@click.group()
def models() -> None:
    """List, fetch, show, verify and remove models."""


models.add_command(pull)
models.add_command(parts)


@models.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the models of the catalogue that are not here.")
@_json_option
def list_models(everything: bool, as_json: bool) -> None:
    """List the models on this disk, and whether each fits into memory.

    Beside the models folder these are the [folders] of your settings and what the Hugging Face cache, LM Studio and
    Ollama keep (other_stores). Each name is what --model takes.
    """
    from app.hub.choices import completed, in_catalogue, on_disk  # noqa: PLC0415 - for this command only
    from app.hub.fit import free_memory  # noqa: PLC0415 - as above

    settings, free = load_settings(), free_memory()
    entries = _library().list()
    here = [completed(choice, settings.kv, settings.ctx, free) for choice in on_disk(entries)]
    others = in_catalogue(here, settings.kv, settings.ctx, free) if everything else []
    if as_json:
        catalogue = load_catalogue()
        rows = [text.choice_facts(choice, entry) for choice, entry in zip(here, entries, strict=True)]
        write_json(rows + [text.catalogue_facts(catalogue[choice.name], choice.fit) for choice in others])
    elif here or others:
        print_table(text.HEAD, [text.row(choice) for choice in [*here, *others]])
    else:
        click.echo("no models on this disk; 'qchat models list --all' shows the catalogue", err=True)


@models.command()
@click.argument("model", shell_complete=suggest.models_here)
@_json_option
def show(model: str, as_json: bool) -> None:
    """Show what a model is, where it is and the memory it needs.

    MODEL is a name or a path; hf:ORG/REPO lists the quantisations of a repository on Hugging Face.
    """
    from app.hub.describe import describe  # noqa: PLC0415 - numpy
    from app.hub.fit import Fit, free_memory  # noqa: PLC0415 - for this command only

    if lists_repository(model, as_json):
        return
    settings = load_settings()
    entry = _library().get(model)
    facts = text.entry_facts(entry) | {"model": entry.name} | describe(entry.path, settings.kv)
    if facts["runnable"]:
        context, memory = facts["network"]["context"], facts["memory"]
        used = min(settings.ctx or context, context)
        fit = Fit(memory["weights_bytes"], memory["kv_bytes_per_token"], used, free_memory())
        facts["fit"] = text.fit_facts(fit)
    if as_json:
        write_json(facts)
        return
    for label, said in text.summary(facts):
        click.echo(escape_controls(f"{label:<14}{said}".replace("\n", " ")))


@models.command()
@click.argument("model", shell_complete=suggest.models_here)
@_json_option
def remove(model: str, as_json: bool) -> None:
    """Remove a model of qchat from this disk; a file registered in place is only forgotten.

    Models in your folders and those of other programs are never removed.
    """
    from app.engine.cpu.packed_cache import forget  # noqa: PLC0415 - not on the way to the help

    library = _library()
    weights = library.get(model, broken=True).path.resolve()
    entry = library.remove(model)
    forget(weights)
    if as_json:
        write_json(text.entry_facts(entry))
    elif entry.linked_to is not None:
        click.echo(escape_controls(f"forgot {entry.name}; the file stays at {entry.linked_to}"))
    else:
        click.echo(escape_controls(f"removed {entry.name} ({human_bytes(entry.size)})"))


@models.command()
@click.argument("model", required=False, shell_complete=suggest.models_here)
@_json_option
@click.pass_context
def verify(ctx: click.Context, /, model: str | None, as_json: bool) -> None:
    """Check the files of MODEL, or of every model on this disk.

    Where the SHA-256 of a file is known the whole file is read and compared: from the catalogue, from the download, or
    from the names that Ollama and the Hugging Face cache give to files. Elsewhere its header and the bounds of every
    tensor are checked. What was checked is said. The exit code is 1 if a model is not as it should be.
    """
    from app.hub.verify import verify as check  # noqa: PLC0415 - numpy

    library = _library()
    entries = library.list() if model is None else [library.get(model, broken=True)]
    rows, good = [], True
    for entry in entries:
        with ProgressLine() as progress:
            verdict = check(entry, library, progress)
        good = good and verdict.good
        rows.append(text.entry_facts(entry) | asdict(verdict))
        if not as_json:
            said = f"good: {verdict.checked}" if verdict.good else f"BAD: {verdict.problem} ({verdict.checked})"
            click.echo(escape_controls(f"{entry.name}: {said}".replace("\n", " ")))
    if as_json:
        write_json(rows if model is None else rows[0])
    elif not rows:
        click.echo("no models on this disk", err=True)
    ctx.exit(0 if good else 1)


@models.command()
@click.option("--clear", is_flag=True, help="Remove all of it.")
@_json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show the packed weights that are kept on disk, so that models start at once, or remove them.

    The setting packed_cache_gb bounds them; what was used longest ago goes first.
    """
    from app.engine.cpu.packed_cache import forget, kept_weights  # noqa: PLC0415 - not on the way to the help

    kept = forget() if clear else kept_weights()
    total = sum(weights.n_bytes for weights in kept)
    if as_json:
        rows = [{"model": w.model, "path": str(w.path), "bytes": w.n_bytes, "used": w.used} for w in kept]
        write_json({"cleared": clear, "bytes": total, "files": rows})
    elif clear:
        click.echo(f"removed the packed weights of {len(kept)} models ({human_bytes(total)})")
    elif kept:
        print_table(("MODEL", "SIZE"), [(w.model or "damaged", human_bytes(w.n_bytes)) for w in kept])
        limit = load_settings().packed_cache_gb
        click.echo(f"{human_bytes(total)} of {limit:g} GB; 'qchat models cache --clear' removes them", err=True)
    else:
        click.echo("no packed weights are kept", err=True)
