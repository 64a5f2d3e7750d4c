"""A table on stdout: columns of text, two spaces apart, safe for a terminal and plain enough for `awk`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from app.cli.terminal import escape_controls


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `rows` under `head`, one line for each; the last column may be of any width."""
    shown = [head, *([escape_controls(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    for row in shown:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
