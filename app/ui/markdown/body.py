"""The widget that shows the Markdown of one message: one widget whatever the text holds, drawn row by row.

Textual lays out every displayed widget whenever one changes, so a message must not be a widget a paragraph.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.cache import LRUCache
from textual.color import TRANSPARENT
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.ui.markdown.copying import copied_text
from app.ui.markdown.flow import Flow
from app.ui.markdown.model import Code, Item, Quote, Spaced
from app.ui.markdown.palette import Palette
from app.ui.markdown.stream import MarkdownStream
from app.ui.markdown.wrap import Row
from app.ui.widgets.one_layout import OneLayout

# With one of these set, Textual's own painting of boxes has work to do.
_EFFECTS = ("tint", "hatch", "text_opacity", "outline_top", "outline_right", "outline_bottom", "outline_left")

# A long unfinished block, such as a line repeated for ever, is parsed anew with every piece of text: after CPU seconds
# above `_LONG` the widget collects text for `_REST` times as long, so that it takes a fifth of a core at most.
_LONG = 0.02
_REST = 4


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A code block of the message, as it is copied."""

    language: str
    text: str


class MarkdownBody(OneLayout, Widget):
    """Markdown that can grow. `append` costs as much as the unfinished end of the text, whatever stands before it."""

    DEFAULT_CSS = """
    MarkdownBody {
        width: 1fr;
        height: auto;
    }
    """

    def __init__(self, text: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._source = text
        self._stream = MarkdownStream()
        self._stream.feed(text)
        self._waiting = ""  # appended, but not yet parsed
        self._resting = False  # after an append that took long
        self._flow: Flow | None = None  # for the last width asked for
        self._palette: Palette | None = None
        self._background = TRANSPARENT  # that rows were last drawn on
        self._strips: LRUCache[int, Strip] = LRUCache(1024)  # rows without a selection, by index
        self._finished: LRUCache[int, Strip] = LRUCache(256)  # of them, filtered and cropped
        self._finished_for: object = None  # by which filters and where

    @property
    def source(self) -> str:
        """The Markdown as it was given."""
        return self._source

    def append(self, text: str) -> None:
        """Add to the end of the message."""
        self._source += text
        self._waiting += text
        if not self._resting:
            start = time.thread_time()
            self._take_in()
            spent = time.thread_time() - start
            if spent > _LONG and self.is_running:
                self._resting = True
                self.set_timer(spent * _REST, self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self.append("")

    def _take_in(self) -> None:
        """Parse and lay out what has been appended."""
        if not self._waiting:
            return
        self._stream.feed(self._waiting)
        self._waiting = ""
        if self._flow is None:
            self.refresh(layout=True)
            return
        height = len(self._flow.rows)
        changed = self._flow.update(self._stream)
        for cache in (self._strips, self._finished):
            for y in [y for y in cache.keys() if y >= changed]:  # noqa: SIM118 - not a dict
                cache.discard(y)
        rows = len(self._flow.rows)
        self.refresh(Region(0, changed, self._flow.width, max(1, rows - changed)), layout=rows != height)

    def set_text(self, text: str) -> None:
        """Show `text` instead, as a fresh widget would: links that are defined at its end work everywhere."""
        if text == self._source and not self._stream.defines_links:
            self._take_in()  # the picture is that of a fresh widget already
            return
        self._source, self._waiting = text, ""
        self._stream = MarkdownStream()
        self._stream.feed(text)
        self._forget()
        self.refresh(layout=True)

    @property
    def code_blocks(self) -> list[CodeBlock]:
        """The code blocks of the message from top to bottom."""
        self._take_in()
        return list(_code_blocks(self._stream.blocks()))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """All of the width there is: text is wrapped to it."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of rows at `width`."""
        return len(self._rows(width))

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        rows = self._rows(width)
        if y >= len(rows):
            return Strip.blank(width, self._style(()))
        selection = self.text_selection if self.is_attached else None  # a removed widget is drawn once more
        span = None if selection is None else selection.get_span(y)
        if span is not None:
            return self._draw(rows[y], y, width, span)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._draw(rows[y], y, width, None)
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of `crop`, from the cache of this widget.

        Textual paints a box around every row anew when the height changes, which while text streams in is half of
        the cost of a frame; without a border or padding there is nothing to paint.
        """
        background = self.background_colors[1]
        if background != self._background:  # of a parent perhaps, which is no change of this widget's style
            self._background = background
            self._forget_colours()
        if self.styles.gutter or self.opacity != 1 or self.styles.has_any_rules(*_EFFECTS):
            return super().render_lines(crop)
        filters = self.get_line_filters()
        finished = self._finished_rows((tuple(filters), crop.column_span, self.content_size.width))
        strips = []
        for y in crop.line_range:
            strip = finished.get(y)
            if strip is None:
                strip = self.render_line(y)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, background)
                strip = strip.crop(*crop.column_span)
                finished[y] = strip
            strips.append(strip)
        return strips

    def _finished_rows(self, how: object) -> LRUCache[int, Strip]:
        """The rows of the last picture that may be used again; a selection is in none of them."""
        selected = self.is_attached and self.text_selection is not None
        if selected or how != self._finished_for:
            self._finished.clear()
        self._finished_for = None if selected else how
        return self._finished

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What a selection copies: the text, without borders, indents and the breaks at which lines were wrapped."""
        if self._flow is None:
            return None
        return copied_text(self._flow.rows, selection), "\n"

    def notify_style_update(self) -> None:
        """The theme or the style changed: the rows stay, their colours don't."""
        super().notify_style_update()
        self._forget_colours()

    def _forget_colours(self) -> None:
        self._palette = None
        self._strips.clear()
        self._finished.clear()

    def _forget(self) -> None:
        self._flow = None
        self._strips.clear()
        self._finished.clear()

    def _rows(self, width: int) -> list[Row]:
        if self._flow is None or self._flow.width != width:
            self._forget()
            self._flow = Flow(width)
            self._flow.update(self._stream)
        return self._flow.rows

    def _style(self, roles: tuple[str, ...]) -> RichStyle:
        if self._palette is None:
            base = self.visual_style + Style(background=self._background)
            self._palette = Palette(base, self.app.current_theme.ansi)
        return self._palette.style(roles)

    def _draw(self, row: Row, y: int, width: int, selected: tuple[int, int] | None) -> Strip:
        segments = [Segment(text, self._style(roles)) for text, roles, _ in row.pieces]
        if selected:
            highlight = self.screen.get_component_rich_style("screen--selection")
            segments = list(_highlight(row, segments, selected, highlight))
        strip = Strip(segments).adjust_cell_length(width, self._style(row.fill))
        return strip.apply_offsets(0, y)


def _code_blocks(blocks: Iterable[Spaced]) -> Iterator[CodeBlock]:
    for block, _ in blocks:
        if isinstance(block, Code):
            yield CodeBlock(block.language, block.text)
        elif isinstance(block, Item | Quote):
            yield from _code_blocks(block.children)


def _highlight(row: Row, segments: list[Segment], selected: tuple[int, int], style: RichStyle) -> Iterator[Segment]:
    """The segments of a row, cut where the selection begins and ends; what isn't copied isn't highlighted."""
    start, end = selected
    at = 0
    for piece, segment in zip(row.pieces, segments, strict=True):
        text = piece.text
        first = max(0, min(len(text), start - at)) if piece.copied else len(text)
        last = (len(text) if end < 0 else max(first, min(len(text), end - at))) if piece.copied else len(text)
        at += len(text)
        for part, look in (
            (text[:first], segment.style),
            (text[first:last], (segment.style or RichStyle()) + style),
            (text[last:], segment.style),
        ):
            if part:
                yield Segment(part, look)
