"""hf:ORG/REPO on the command line: what the repository offers, what fits into memory, and how to fetch it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from app.cli.fit_text import fit_text
from app.cli.model_text import fit_facts
from app.cli.progress import ProgressLine, human_bytes
from app.cli.table import print_table
from app.cli.terminal import escape_controls, write_json
from app.errors import printable
from app.hub.transfer import Steering

if TYPE_CHECKING:
    from app.hub.catalogue.repository import Offer, Repository

_HEAD = ("", "TYPE", "SIZE", "MEMORY", "FILE", "")


def lists_repository(source: str, as_json: bool) -> bool:
    """Whether `source` names a repository and no file; what it offers is then printed."""
    from app.hub.catalogue.repository import look, repository_named  # noqa: PLC0415 - for this kind of source only
    from app.hub.fit import free_memory  # noqa: PLC0415 - as above

    name = repository_named(source)
    if name is None or source.count(":") > 1:
        return False
    with ProgressLine() as progress:
        repository = look(name, free_memory(), Steering(progress.show))
    if as_json:
        write_json(_facts(repository))
        return True
    if repository.offers:
        print_table(_HEAD, [_row(offer) for offer in repository.offers])
    for reason in repository.refused:
        click.echo(escape_controls(reason), err=True)
    click.echo(escape_controls(_advice(repository)), err=True)
    return True


def _row(offer: Offer) -> Sequence[str]:
    """One line of what a repository offers, under _HEAD."""
    memory = "" if offer.problem or offer.fit is None else fit_text(offer.fit, "~")
    parts = f"{offer.parts} parts" if offer.parts > 1 else ""
    remark = offer.problem or parts
    return ("*" if offer.best else "", offer.kind, human_bytes(offer.size), memory, offer.file, remark)


def _facts(repository: Repository) -> dict[str, Any]:
    """What a repository offers, JSON-ready."""
    return {
        "repository": repository.name,
        "offers": [
            {
                "source": repository.source(offer),
                "quantisation": offer.kind,
                "bytes": offer.size,
                "parts": offer.parts,
                "best": offer.best,
                "problem": offer.problem or None,
                "memory": None if offer.fit is None else fit_facts(offer.fit),
            }
            for offer in repository.offers
        ],
        "refused": list(repository.refused),
    }


def _advice(repository: Repository) -> str:
    """What to do with the list."""
    best = repository.best
    if best is not None:
        return f"* suits this machine best: 'qchat models pull {repository.short_source(best)}' fetches it"
    if repository.offers:
        return "none of these is sure to run on this machine: 'qchat models pull hf:ORG/REPO/FILE' fetches one anyway"
    return f"{printable(repository.name)} has no .gguf file that can be fetched; look for a repository named ...-GGUF"
