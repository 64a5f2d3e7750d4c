"""The last thing that every line passes on its way to the terminal: no control character gets through.

What a person, a model or a file says is escaped where it is shown, and so is visible. A widget that forgets to, or one
of Textual's own, must still not be a way to the terminal.
"""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# As in cli.terminal, and tab and newline: a line that is drawn has neither. None of them has a width of its own.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class WithoutControls(LineFilter):
    """Takes control characters out of the text of a line, and out of the addresses of its links."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if not any(_is_unsafe(segment) for segment in segments):
            return segments
        return [_safe(segment) if _is_unsafe(segment) else segment for segment in segments]


def _is_unsafe(segment: Segment) -> bool:
    link = segment.style.link if segment.style else None
    return bool(_CONTROLS.search(segment.text) or (link and _CONTROLS.search(link)))


def _safe(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(_CONTROLS.sub("", style.link))
    return Segment(_CONTROLS.sub("", segment.text), style, segment.control)
