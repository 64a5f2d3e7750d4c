"""The line under the composer: the model, what happens now, the speed, how full the context is, what is not saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from app.cli.terminal import escape_controls


@dataclass(frozen=True)
class Status:
    """What the line shows. Figures are measured ones; what is not known is None and is not shown."""

    model: str = ""
    activity: str = ""  # "loading the model 40 %", "writing"
    speed: float | None = None  # tokens a second
    context_used: int | None = None  # tokens
    context_size: int | None = None
    speculation: str = ""  # what it did for the last reply
    not_saved: str = ""  # why saving fails


class StatusLine(Static):
    """Shows a `Status`; `change` replaces fields of it."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 2; text-wrap: nowrap; text-overflow: ellipsis; color: $text-muted; }
    """

    status: reactive[Status] = reactive(Status())

    def __init__(self) -> None:
        super().__init__(id="status", markup=False)

    def change(self, **fields: Any) -> None:
        """Replace these fields."""
        self.status = replace(self.status, **fields)

    def watch_status(self, status: Status) -> None:
        self.update(_line(status), layout=False)  # always one row; a layout of the screen costs more than the row


def _line(status: Status) -> Content:
    parts: list[Content] = []
    if status.not_saved:
        parts.append(Content.styled(f"not saved: {escape_controls(status.not_saved)}", "$text-error"))
    if status.model:
        parts.append(Content(escape_controls(status.model)))
    if status.activity:
        parts.append(Content.styled(escape_controls(status.activity), "$text-accent"))
    if status.speed is not None:
        parts.append(Content(f"{status.speed:.1f} tokens/s"))
    if status.context_used is not None and status.context_size:
        share = 100 * status.context_used / status.context_size
        style = "$text-warning" if share >= 80 else ""
        text = f"context {status.context_used:,} of {status.context_size:,} ({share:.0f} %)"
        parts.append(Content.styled(text, style))
    if status.speculation:  # last, as the longest: a narrow window cuts it
        parts.append(Content(status.speculation))
    return Content("  ·  ").join(parts)
