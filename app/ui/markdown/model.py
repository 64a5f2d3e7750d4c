"""What a Markdown text consists of once it is parsed: values that layout draws and tests compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# Names of the widget's component classes, outermost first; they add up to one style.
Roles = tuple[str, ...]


class Span(NamedTuple):
    """A run of text in one style. A newline in `text` is a line break of the author."""

    text: str
    roles: Roles = ()


Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    spans: Spans


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    spans: Spans


@dataclass(frozen=True, slots=True)
class Code:
    """A fence or an indented block. An open fence is still being written and is drawn without highlighting."""

    language: str
    text: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    pass


@dataclass(frozen=True, slots=True)
class Quote:
    children: tuple[Spaced, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list, with its marker as drawn (without the space after it)."""

    marker: str
    children: tuple[Spaced, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`alignments` holds "left", "center" or "right" a column; every row has as many cells as the header."""

    header: tuple[Spans, ...]
    alignments: tuple[str, ...]
    rows: tuple[tuple[Spans, ...], ...]


Block = Paragraph | Heading | Code | Rule | Quote | Item | Table


class Spaced(NamedTuple):
    """A block and whether a blank row stands above it.

    Items of a list are blocks of their own, so a list that is still growing settles item by item.
    """

    block: Block
    gap: bool
