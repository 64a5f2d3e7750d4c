"""Markdown that is still being written: what is settled is parsed once, only the tail is parsed again.

A block is settled as soon as no further text can change it: a later block has begun on a complete line, or a blank line
has ended it. Three kinds grow without bound and settle in parts: an item of a list once the next item has begun, a row
of a table, a line of an open fence. The picture of the text so far equals that of the same text given at once, except
for links whose definition comes later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from app.cli.terminal import escape_controls
from app.ui.markdown.blocks import Placed, new_parser, parse
from app.ui.markdown.model import Code, Spaced, Spans, Table

# Blocks that a blank line ends for good; lists and indented code may go on after one.
_ENDED_BY_BLANK = {"paragraph", "heading", "lheading", "hr", "blockquote"}
_FENCE = re.compile(r"`{3,}|~{3,}")

Row = tuple[Spans, ...]


@dataclass(slots=True)
class OpenCode:
    """A top-level fence that isn't closed yet: complete lines, and the line being written."""

    language: str
    gap: bool
    closing: re.Pattern[str]
    lines: list[str] = field(default_factory=list)
    partial: str = ""

    @property
    def closed(self) -> bool:
        """Whether the line being written closes the fence, should nothing follow on it."""
        return self.closing.fullmatch(self.partial) is not None

    @property
    def shown_partial(self) -> str:
        """The line being written, as far as it is code."""
        return "" if self.closed or not self.partial.strip(" \t") else self.partial

    def block(self) -> Spaced:
        lines = [*self.lines, self.shown_partial] if self.shown_partial else self.lines
        return Spaced(Code(self.language, "\n".join(lines), self.closed), self.gap)


@dataclass(slots=True)
class OpenTable:
    """A top-level table that may get more rows: `rows` on complete lines, `partial` on the line being written."""

    head: Table
    gap: bool
    source: str  # the two lines of the header
    rows: list[Row] = field(default_factory=list)
    partial: tuple[Row, ...] = ()

    def block(self) -> Spaced:
        return Spaced(Table(self.head.header, self.head.alignments, (*self.rows, *self.partial)), self.gap)


@dataclass(frozen=True, slots=True)
class _OpenList:
    """A top-level list whose earlier items are settled: how it goes on, and the gap above the next item."""

    mark: str
    number: int
    gap: bool

    @property
    def context(self) -> str:
        """A first item that makes the parser read what follows as the next items of the same list.

        Its text is indented so far that no later item of the list can be taken for its child.
        """
        return f"1{self.mark}   x\n" if self.mark in {".", ")"} else f"{self.mark}    x\n"


class MarkdownStream:
    """The text in order: `settled`, which only grows, then `open`, if there is one, then `tail`."""

    def __init__(self) -> None:
        self.settled: list[Spaced] = []
        self.open: OpenCode | OpenTable | None = None
        self.tail: list[Spaced] = []
        self.defines_links = False  # then the text so far may differ from the same text given at once
        self._list: _OpenList | None = None
        self._source = ""  # unsettled text as it was given
        self._parser = new_parser()
        self._links: dict[str, Any] = {}

    def feed(self, text: str) -> None:
        """Append `text`. The cost depends on the unsettled text, not on all of it."""
        self._source += text
        while self._advance():
            pass

    def blocks(self) -> list[Spaced]:
        """All of the text so far."""
        return [*self.settled, *([self.open.block()] if self.open else []), *self.tail]

    def _advance(self) -> bool:
        """One step; true if what is left of the source has to be read in another way."""
        source = escape_controls(self._source.replace("\r\n", "\n"))
        match self.open:
            case OpenCode():
                return self._advance_code(self.open, source)
            case OpenTable():
                return self._advance_table(self.open, source)
            case None:
                return self._advance_blocks(source)

    def _advance_code(self, code: OpenCode, source: str) -> bool:
        self.tail = []
        *complete, code.partial = source.split("\n")
        for index, line in enumerate(complete):
            if code.closing.fullmatch(line):
                code.lines.extend(complete[:index])
                code.partial = line
                self._settle_open(code, index + 1)
                return True
        code.lines.extend(complete)
        self._drop_lines(len(complete))
        return False

    def _advance_table(self, table: OpenTable, source: str) -> bool:
        complete = 2 + source.count("\n")
        first, *others = parse(self._parser, table.source + source, self._env())
        assert isinstance(first.spaced.block, Table)
        rows = first.spaced.block.rows
        settled = min(first.end, complete) - 2
        table.rows.extend(rows[:settled])
        table.partial = rows[settled:]
        if first.end < complete:
            self._settle_open(table, settled)
            return True
        self._drop_lines(settled)
        self.tail = [placed.spaced for placed in others]
        return False

    def _settle_open(self, block: OpenCode | OpenTable, lines: int) -> None:
        self.settled.append(block.block())
        self.open, self.tail = None, []
        self._drop_lines(lines)

    def _advance_blocks(self, source: str) -> bool:
        context = self._list.context if self._list else ""
        lines = (context + source).split("\n")
        complete = len(lines) - 1
        env = self._env()
        placed = parse(self._parser, context + source, env, self._list.number - 1 if self._list else None)
        if self._list:
            placed = [replace(placed[1], spaced=Spaced(placed[1].spaced.block, self._list.gap)), *placed[2:]]
        elif placed and self.settled:
            placed[0] = replace(placed[0], spaced=Spaced(placed[0].spaced.block, True))
        count = _settled_count(placed, lines)
        unsettled = placed[count:]
        self.settled.extend(block.spaced for block in placed[:count])
        self.tail = [block.spaced for block in unsettled]
        boundary = placed[count - 1].end if count else 0
        if len(unsettled) == 1 and (opened := _opened(unsettled[0], lines)):
            self.open, self.tail = opened, []
            boundary = unsettled[0].start + (1 if isinstance(opened, OpenCode) else 2)
            self._list = None
        elif count:
            boundary = self._go_on_with_list(placed[count - 1], unsettled) or boundary
        elif not placed and not source.strip():
            boundary = complete
        self.defines_links = self.defines_links or bool(env["references"])
        for label, link in env["references"].items():
            if link["map"][1] <= boundary:
                self._links.setdefault(label, link)
        self._drop_lines(boundary - context.count("\n") if boundary else 0)
        return self.open is not None

    def _go_on_with_list(self, last: Placed, unsettled: list[Placed]) -> int | None:
        """Where the source has to begin if the settled blocks end in the middle of a list, else None."""
        self._list = None
        if not unsettled or last.list_start is None or unsettled[0].list_start != last.list_start:
            return None
        item = unsettled[0]
        self._list = _OpenList(item.markup, item.number, item.spaced.gap)
        return item.start

    def _env(self) -> dict[str, Any]:
        return {"references": dict(self._links)}

    def _drop_lines(self, count: int) -> None:
        at = 0
        for _ in range(count):
            at = self._source.index("\n", at) + 1
        self._source = self._source[at:]


def _settled_count(placed: list[Placed], lines: list[str]) -> int:
    """How many of the blocks no further text can change. The last of `lines` may still grow, the others not."""
    if not placed:
        return 0
    complete = len(lines) - 1
    last = placed[-1]
    ended = last.kind in _ENDED_BY_BLANK and last.end < complete and not lines[last.end].strip()
    if ended or (isinstance(last.spaced.block, Code) and last.kind == "fence" and _is_closed(last, complete)):
        return len(placed)
    # A table begins on its first line only once the second is known.
    known = last.start + (last.kind == "table")
    return max(0, len(placed) - (1 if known < complete else 2))


def _is_closed(fence: Placed, complete: int) -> bool:
    return isinstance(fence.spaced.block, Code) and fence.spaced.block.closed and fence.end <= complete


def _opened(block: Placed, lines: list[str]) -> OpenCode | OpenTable | None:
    """The state to go on with in a fence or a table that is the last block of the text and complete enough."""
    complete = len(lines) - 1
    content = block.spaced.block
    if block.kind == "fence" and isinstance(content, Code) and not content.closed:
        # With a bar in it, the line may still turn out to be the header of a table.
        if block.start + ("|" in lines[block.start]) >= complete:
            return None
        if not (marks := _FENCE.match(lines[block.start])):
            return None  # indented: its content loses that indent, which the parser knows best
        closing = re.compile(rf" {{0,3}}{marks[0]}{marks[0][0]}*[ \t]*")
        return OpenCode(content.language, block.spaced.gap, closing)
    if isinstance(content, Table) and block.start + 1 < complete:
        header = "\n".join(lines[block.start : block.start + 2]) + "\n"
        return OpenTable(content, block.spaced.gap, header)
    return None
