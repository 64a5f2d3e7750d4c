"""How far a download is: in a few words, and as the bar below its row."""

from __future__ import annotations

from textual.content import Content

from app.cli.progress import duration, human_bytes
from app.hub.choices import Choice
from app.hub.transfer import Transfer
from app.ui.screens.picker.text import DIM, escaped

LEAST_BAR = 8  # cells


def step(transfer: Transfer | None, choice: Choice, *, paused: bool = False) -> str:
    """What a download is doing, in a few words: "downloading, part 1 of 2, 40 %"."""
    if transfer is None:
        return "paused" if paused else "starting"
    stage = "paused" if paused else transfer.stage
    parts = [stage, transfer.note, f"{100 * _share(transfer, choice.size):.0f} %"]
    return escaped(", ".join(part for part in parts if part))


def bar(transfer: Transfer, expected: int, width: int) -> Content:
    """The second line of a row that is being fetched. `expected` is its size in the catalogue, in bytes."""
    total = transfer.total or expected
    about = "" if transfer.total else "~"
    share = _share(transfer, expected)
    parts = [f"{100 * share:3.0f} %", f"{human_bytes(transfer.done)} of {about}{human_bytes(total)}"]
    if transfer.stage != "downloading":
        parts.append(escaped(transfer.stage))
    elif transfer.speed is not None:
        parts.append(f"{human_bytes(transfer.speed)}/s")
        if transfer.speed:
            parts.append(f"{about}{duration(max(0, total - transfer.done) / transfer.speed)} left")
    numbers = "  ".join(parts)
    room = min(40, width - len(numbers) - 2)
    if room < LEAST_BAR:
        return Content.styled(numbers, DIM).truncate(width, ellipsis=True)
    filled = round(room * share)
    return Content.assemble(
        ("━" * filled, "$primary"), ("─" * (room - filled), "$foreground 30%"), "  ", (numbers, DIM)
    )


def _share(transfer: Transfer, expected: int) -> float:
    total = transfer.total or expected
    return min(1.0, transfer.done / total) if total else 0.0
