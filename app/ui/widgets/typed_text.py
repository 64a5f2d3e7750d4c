"""What a person typed, as it was typed: one widget that wraps its lines and draws only the rows that are on the screen.

A paste may have ten thousand lines, and Textual's own text widget draws all of them to show forty.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.cli.terminal import escape_controls
from app.ui.markdown.copying import copied_text
from app.ui.markdown.model import Span
from app.ui.markdown.wrap import Piece, Row, wrap

FOLDED_LINES, FOLDED_CHARACTERS = 24, 4000
TAB = 8  # cells


class TypedText(Widget):
    """`text` without any markup. A long one is folded until `toggle`."""

    DEFAULT_CSS = """
    TypedText { width: 1fr; height: auto; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = escape_controls(text)
        self._whole = False
        self._rows: list[Row] = []
        self._width: int | None = None  # that the rows are for

    def toggle(self) -> None:
        """Show all of a long text, or fold it again."""
        self._whole = not self._whole
        self._width = None
        self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows_for(width))

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        rows = self._rows_for(width)
        blank = RichStyle(bgcolor=self.visual_style.rich_style.bgcolor)
        if y >= len(rows):
            return Strip.blank(width, blank)
        selection = self.text_selection if self.is_attached else None  # a removed widget is drawn once more
        span = selection.get_span(y) if selection else None
        return Strip(self._segments(rows[y], span)).apply_offsets(0, y).adjust_cell_length(width, blank)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What a selection copies: the text without the breaks at which lines were wrapped."""
        return copied_text(self._rows, selection), "\n"

    def _segments(self, row: Row, selected: tuple[int, int] | None) -> Iterator[Segment]:
        for text, roles, copied in row.pieces:
            style = (self.visual_style + Style(dim=True) if roles else self.visual_style).rich_style
            start, end = selected if selected and copied else (0, 0)
            end = len(text) if end < 0 else end
            end = max(start, end)
            if text[:start]:
                yield Segment(text[:start], style)
            if text[start:end]:
                yield Segment(text[start:end], style + self.screen.get_component_rich_style("screen--selection"))
            if text[end:]:
                yield Segment(text[end:], style)

    def _rows_for(self, width: int) -> list[Row]:
        if width != self._width:
            shown, note = (self._text, "") if self._whole else _folded(self._text)
            self._rows = wrap((Span(shown.expandtabs(TAB)),), width)
            if note:
                self._rows += [Row(_dimmed(row), whole="") for row in wrap((Span(note),), width)]
            self._width = width
        return self._rows


def _dimmed(row: Row) -> tuple[Piece, ...]:
    return tuple(Piece(text, ("dim",), False) for text, _, _ in row.pieces)


def _folded(text: str) -> tuple[str, str]:
    """How `text` begins, and a note of what is left out of it; "" where that is nothing."""
    head = "\n".join(text[: FOLDED_CHARACTERS + 1].split("\n")[:FOLDED_LINES])[:FOLDED_CHARACTERS]
    if len(head) == len(text):
        return text, ""
    more = text.count("\n", len(head))
    rest = f"{more:,} more lines" if more > 1 else f"{len(text) - len(head):,} more characters"
    return head, f"… {rest}; Enter on the message shows all"
