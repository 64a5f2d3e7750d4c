"""Textual's compositor, painting only what a picture needs.

Textual asks every widget of the screen for all of its rows whenever one row has changed, the list of chats and the
composer included, and cuts rows that other widgets cover. While a reply streams in that was half of what the app cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class SparingCompositor(Compositor):
    """The pictures are those of Textual's own."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What has changed since the last picture; None if nothing has."""
        update = super().render_partial_update()
        return update and _Changes(update.chops, update.spans, update.chop_ends)

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """A row is cut wherever a widget of it begins or ends; here the cuts of each row with what is painted in them.

        Widgets come from front to back, so what is painted first stays. Where there is nothing to do there is None.
        """
        cuts = self.cuts
        painted: list[dict[int, Strip]] = [dict.fromkeys(row[:-1]) for row in cuts]  # type: ignore[misc]
        open_cuts = {
            y: {x for x, end in pairwise(cuts[y]) if x < crop.right and end > crop.x}
            for y in crop.line_range
            if is_rendered_line(y)
        }
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            left, top, right, bottom = shown.corners
            inside: dict[int, list[int]] = {}
            for y in range(max(top, crop.y), min(bottom, crop.bottom)):
                if wanted := open_cuts.get(y):
                    columns = [x for x in cuts[y] if left <= x <= right]
                    if not wanted.isdisjoint(columns[:-1]):
                        inside[y] = columns
            if not inside:
                continue
            first, last = min(inside), max(inside)
            strips = widget.render_lines(Region(left - region.x, first - region.y, shown.width, last - first + 1))
            for y, columns in inside.items():
                wanted = open_cuts[y]
                for x, strip in zip(columns, strips[y - first].divide([x - left for x in columns[1:]]), strict=False):
                    if x in wanted:
                        painted[y][x] = strip
                        wanted.discard(x)
        return painted


class _Changes(ChopsUpdate):
    """Changes as they are written; Textual makes an object of Rich for each move of the cursor."""

    def render_segments(self, console: Console) -> str:
        written: list[str] = []
        for y, left, right in self.spans:
            for (x, strip), end in zip(self.chops[y].items(), self.chop_ends[y], strict=True):
                if strip is not None and x < right and end > left:
                    part = strip if end <= right else strip.crop(0, right - x)
                    written += (f"\x1b[{y + 1};{x + 1}H", part.render(console))
        return "".join(written)
