"""How the model picker writes its rows: columns that fit the width, and the two lines about the row at the cursor.

Every name, title and reason comes from a file or a server, so it is escaped, and nothing here is read as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from app.cli.progress import duration, human_bytes
from app.errors import QChatError, printable
from app.hub.choices import Choice, Place
from app.hub.fit import Fit
from app.hub.transfer import Transfer

HEADINGS: dict[Place, str] = {
    "disk": "On this disk",
    "catalogue": "To download",
    "server": "Servers",
    "backend": "Other backends",
}
WITHOUT_COLUMNS: tuple[Place, ...] = ("server", "backend")
DIM = "$foreground-muted"
GOOD, WARN, BAD = "$text-success", "$text-warning", "$text-error"
GAP = 2  # cells between columns
SIZE, CONTEXT, MEMORY = 9, 7, 28  # cells of these columns
LEAST_NAME = 12
LEAST_KIND = 10  # where there is as much to show
LEAST_BAR = 8


@dataclass(frozen=True)
class Columns:
    """Cells of the first two columns of a section: the name, and the weights' type or the licence."""

    name: int
    kind: int


def columns_of(choices: Sequence[Choice], width: int) -> dict[Place, Columns]:
    """The columns of each section in rows of `width` cells. Their sum is the same, so that the others stand in line."""
    room = max(LEAST_NAME + 4, width - (SIZE + CONTEXT + MEMORY + 4 * GAP))
    names, kinds = {}, {}
    for place, title in HEADINGS.items():
        section = [choice for choice in choices if choice.place == place != "server"]
        names[place] = max(cell_len(text) for text in (title, *(escaped(choice.name) for choice in section)))
        kinds[place] = max(cell_len(text) for text in ("type", *(escaped(_kind(choice)) for choice in section)))
    both = min(room, max(names[place] + kinds[place] for place in HEADINGS))
    fitting = {}
    for place in HEADINGS:
        name = max(LEAST_NAME, min(names[place], both - min(kinds[place], LEAST_KIND)))
        fitting[place] = Columns(name, both - name)
    at_servers = [cell_len(escaped(choice.name)) for choice in choices if choice.place == "server"]
    fitting["server"] = Columns(min(max(at_servers, default=0), width * 2 // 3), 0)
    return fitting


def escaped(text: str) -> str:
    """`text` on one line, safe for a terminal."""
    return printable(text, 400)


def heading(place: Place, columns: Columns, width: int) -> Content:
    """The line above a section, which also names its columns."""
    title = Content.styled(HEADINGS[place].ljust(columns.name), "bold $text-primary")
    if place in WITHOUT_COLUMNS:
        return title.truncate(width)
    kind = "type" if place == "disk" else "licence"
    rest = _line([(kind, columns.kind), ("size", -SIZE), ("context", -CONTEXT), ("memory", MEMORY)])
    return Content.assemble(title, " " * GAP, rest.stylize(DIM)).truncate(width)


def row(choice: Choice, columns: Columns, width: int, *, in_use: bool, failed: bool) -> Content:
    """One line of at most `width` cells."""
    name = Content(escaped(choice.name))
    if choice.problem:
        name = name.stylize(DIM)
    if choice.place == "backend":
        cells = [(name, columns.name), (Content.styled(f"qchat --backend {escaped(choice.name)}", DIM), width)]
    elif choice.place == "server":
        cells = [(name, columns.name), (_about_server(choice, in_use), width)]
    elif choice.problem:
        cells = [(name, columns.name), (Content.styled(f"cannot run: {escaped(choice.problem)}", BAD), width)]
    else:
        memory = Content.styled("in use", "bold $text-primary") if in_use else memory_text(choice)
        cells = [
            (name, columns.name),
            (Content.styled(escaped(_kind(choice)), DIM), columns.kind),
            (Content(_size(choice)), -SIZE),
            (Content.styled(f"{choice.context:,}" if choice.context else "", DIM), -CONTEXT),
            (Content.styled("failed", BAD) if failed else memory, MEMORY),
        ]
    return _line(cells).truncate(width, ellipsis=True)


def memory_text(choice: Choice) -> Content:
    """Whether the model fits: in words first, in colour second."""
    fit = choice.fit
    if fit is None:
        return Content.styled("" if choice.complete else "reading ...", DIM)
    about = _about(choice)
    if fit.verdict == "fits":
        return Content.styled("fits", GOOD)
    if fit.verdict == "tight":
        return Content.styled("tight", WARN)
    if fit.verdict == "unknown":
        return Content.styled(f"needs {about}{human_bytes(fit.least)}", DIM)
    return Content.styled(f"needs {about}{human_bytes(fit.least)}, {human_bytes(fit.free or 0)} free", BAD)


def step(transfer: Transfer | None, choice: Choice) -> str:
    """What a download is doing, in a few words: "downloading part 1 of 2, 40 %"."""
    if transfer is None:
        return "starting"
    return f"{escaped(transfer.stage)}, {100 * _share(transfer, choice.size):.0f} %"


def bar(transfer: Transfer, expected: int, width: int) -> Content:
    """The second line of a row that is being fetched. `expected` is its size in the catalogue, in bytes."""
    total = transfer.total or expected
    about = "" if transfer.total else "~"
    share = _share(transfer, expected)
    parts = [f"{100 * share:3.0f} %", f"{human_bytes(transfer.done)} of {about}{human_bytes(total)}"]
    if transfer.speed is not None:
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


def detail(choice: Choice, width: int) -> Content:
    """Three lines of `width` cells about a row: what it is, and the memory that it takes or why it cannot run."""
    if choice.place == "backend":
        said = f"Its models are its own: qchat --backend {escaped(choice.name)} --model NAME"
        return Content.assemble((escaped(choice.name), "bold"), "\n", (said, DIM))
    if choice.place == "server":
        second = _server_sentence(choice)
    elif choice.problem:
        second = Content.styled(f"cannot run: {escaped(choice.problem)}", BAD)
    elif choice.fit:
        second = Content.styled(_memory_sentence(choice, choice.fit), DIM)
    else:
        second = Content.styled("" if choice.complete else "reading the file ...", DIM)
    about = [escaped(text) for text in (choice.title, choice.licence, choice.note) if text]
    if choice.linked_to:
        about.append(f"at {escaped(str(choice.linked_to))}")
    first = Content.assemble((escaped(choice.name), "bold"), (" · ".join(["", *about]), DIM))
    room = width if second.cell_length > width else 2 * width - 12  # a word may not fit at the end of a line
    return Content.assemble(first.truncate(room, ellipsis=True), "\n", second)


def failure(error: QChatError) -> Content:
    """What went wrong and what to do, in two lines."""
    return Content.assemble((escaped(error.message), BAD), "\n", (escaped(error.hint or ""), DIM))


def _about_server(choice: Choice, in_use: bool) -> Content:
    if choice.problem:
        return Content.styled(escaped(choice.problem), BAD)
    if in_use:
        return Content.styled("in use", "bold $text-primary")
    return Content.styled(escaped(choice.note) if choice.complete else "asking ...", DIM)


def _server_sentence(choice: Choice) -> Content:
    if choice.problem:
        return Content.styled(escaped(choice.problem), BAD)
    waiting = "" if choice.complete else " It has not told its models yet."
    return Content.styled(f"That server answers, and what you write goes there.{waiting}", DIM)


def _memory_sentence(choice: Choice, fit: Fit) -> str:
    about = _about(choice)
    weights, cache = human_bytes(fit.weights), human_bytes(fit.kv_per_token * fit.context)
    sentence = f"{about}{weights} of weights + {about}{cache} for {fit.context:,} tokens + the program"
    if fit.verdict == "tight":
        sentence += f"; {human_bytes(fit.free or 0)} free is enough for {about}{fit.tokens or 0:,} tokens"
    return sentence


def _share(transfer: Transfer, expected: int) -> float:
    total = transfer.total or expected
    return min(1.0, transfer.done / total) if total else 0.0


def _about(choice: Choice) -> str:
    return "~" if choice.place == "catalogue" else ""


def _size(choice: Choice) -> str:
    return _about(choice) + human_bytes(choice.size)


def _kind(choice: Choice) -> str:
    return choice.quantisation if choice.place == "disk" else choice.licence


def _line(cells: Sequence[tuple[Content | str, int]]) -> Content:
    """Cells beside each other, the last without its padding; a width below zero aligns to the right."""
    parts: list[Content] = []
    for cell, width in cells:
        content = Content(cell) if isinstance(cell, str) else cell
        content = content.truncate(abs(width), ellipsis=True)
        free = abs(width) - content.cell_length if len(parts) < len(cells) - 1 else 0
        parts.append(content.pad_left(free) if width < 0 else content.pad_right(free))
    return Content(" " * GAP).join(parts)
