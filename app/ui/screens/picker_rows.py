"""How the model picker writes its rows: columns that fit the width, and the two lines about the row at the cursor.

Every name, title and reason comes from a file or a server, so it is escaped, and nothing here is read as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from app.cli.fit_text import fit_text
from app.cli.progress import duration, human_bytes
from app.errors import QChatError, printable
from app.hub.choices import Choice, Place
from app.hub.fit import Fit
from app.hub.source import endpoint
from app.hub.transfer import Transfer

HEADINGS: Mapping[Place, str] = {
    "disk": "On this disk",
    "unfinished": "Not complete",
    "repository": "A repository",
    "catalogue": "To download",
    "server": "Servers",
    "backend": "Other backends",
}
WITHOUT_COLUMNS: tuple[Place, ...] = ("repository", "server", "backend")
DIM = "$foreground-muted"
GOOD, WARN, BAD = "$text-success", "$text-warning", "$text-error"
GAP = 2  # cells between columns
SIZE, CONTEXT, MEMORY, SHORT_MEMORY = 9, 7, 28, 14  # cells of these columns
NARROW = 90  # cells below which what is free, which stands in the frame, is not repeated in the rows
LEAST_NAME = 12
LEAST_KIND = 10  # where there is as much to show
LEAST_BAR = 8


@dataclass(frozen=True)
class Columns:
    """Cells of the first two columns of a section: the name, and the weights' type or the licence."""

    name: int
    kind: int


def title_of(choice: Choice) -> str:
    """The heading of the section that a row belongs to."""
    if choice.place == "offer" or (choice.place == "disk" and choice.origin != "qchat"):
        store = escaped(choice.store)
        return store if choice.place == "offer" else store[:1].upper() + store[1:]
    return HEADINGS[choice.place]


def columns_of(choices: Sequence[Choice], width: int) -> dict[str, Columns]:
    """The columns of each section in rows of `width` cells. Their sum is the same, so that the others stand in line."""
    room = max(LEAST_NAME + 4, width - (SIZE + CONTEXT + _memory_cells(width) + 4 * GAP))
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for choice in choices:
        if choice.place != "server":
            title = title_of(choice)
            names[title] = max(names.get(title, cell_len(title)), cell_len(shown_name(choice)))
            kinds[title] = max(kinds.get(title, cell_len("type")), cell_len(escaped(_kind(choice))))
    both = min(room, max((names[title] + kinds[title] for title in names), default=room))
    fitting = {}
    for title, longest in names.items():
        name = max(LEAST_NAME, min(longest, both - min(kinds[title], LEAST_KIND)))
        fitting[title] = Columns(name, both - name)
    at_servers = [cell_len(escaped(choice.name)) for choice in choices if choice.place == "server"]
    if at_servers:
        backends = fitting.pop(HEADINGS["backend"], None)  # which come last
        fitting[HEADINGS["server"]] = Columns(min(max(at_servers), width * 2 // 3), 0)
        fitting |= {} if backends is None else {HEADINGS["backend"]: backends}
    return fitting


def escaped(text: str) -> str:
    """`text` on one line, safe for a terminal."""
    return printable(text, 400)


def shown_name(choice: Choice) -> str:
    """What a row is called under its heading."""
    return escaped(choice.label or choice.name)


def heading(choice: Choice, columns: Columns, width: int) -> Content:
    """The line above the section of `choice`, which also names its columns."""
    title = Content.styled(title_of(choice).ljust(columns.name), "bold $text-primary")
    if choice.place in WITHOUT_COLUMNS:
        return title.truncate(width)
    kind = "licence" if choice.place == "catalogue" else "" if choice.place == "unfinished" else "type"
    rest = _line([(kind, columns.kind), ("size", -SIZE), ("context", -CONTEXT), ("memory", _memory_cells(width))])
    if choice.place == "unfinished":
        rest = _line([("", columns.kind), ("size", -SIZE), ("", -CONTEXT), ("here", _memory_cells(width))])
    return Content.assemble(_cut(title, columns.name), " " * GAP, rest.stylize(DIM)).truncate(width)


def row(choice: Choice, columns: Columns, width: int, *, in_use: bool, failed: bool) -> Content:
    """One line of at most `width` cells."""
    name = _cut(Content(shown_name(choice)), columns.name)
    if choice.problem:
        name = name.stylize(DIM)
    if choice.place == "backend":
        cells = [(name, columns.name), (Content.styled(f"qchat --backend {escaped(choice.name)}", DIM), width)]
    elif choice.place == "server":
        cells = [(name, columns.name), (_about_server(choice, in_use), width)]
    elif choice.place == "repository":
        cells = [(Content(escaped(choice.name)), width)]
    elif choice.problem:
        why = choice.problem if choice.place == "unfinished" else f"cannot run: {choice.problem}"
        cells = [(name, columns.name), (Content.styled(escaped(why), BAD), width)]
    else:
        memory = Content.styled("in use", "bold $text-primary") if in_use else memory_text(choice, width)
        cells = [
            (name, columns.name),
            (Content.styled(escaped(_kind(choice)), DIM), columns.kind),
            (Content(_size(choice)), -SIZE),
            (Content.styled(f"{choice.context:,}" if choice.context else "", DIM), -CONTEXT),
            (Content.styled("failed", BAD) if failed else memory, _memory_cells(width)),
        ]
    return _line(cells).truncate(width, ellipsis=True)


def memory_text(choice: Choice, width: int) -> Content:
    """Whether the model fits: in words first, in colour second. Of what is not complete, how much of it is here."""
    if choice.place == "unfinished":
        share = f"{100 * choice.done // choice.size} %" if choice.size else human_bytes(choice.done)
        return Content.styled(share, WARN)
    fit = choice.fit
    if fit is None:
        return Content.styled("" if choice.complete else "reading ...", DIM)
    colour = {"fits": GOOD, "tight": WARN, "unknown": DIM, "too large": BAD}[fit.verdict]
    words = fit_text(fit, _about(choice))
    if width < NARROW:
        words = words.partition(",")[0]
    return Content.styled(f"{words}, best" if choice.best and width >= NARROW else words, colour)


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


def detail(choice: Choice, width: int, verdict: str = "") -> Content:
    """Three lines of `width` cells about a row: what it is, and the memory that it takes or why it cannot run.

    verdict: what was found out about its file when it was fetched.
    """
    if choice.place == "repository":
        said = f"Enter asks {escaped(endpoint())} which quantisations it has"
        return Content.assemble((escaped(choice.name), "bold"), "\n", (said, DIM))
    if choice.place == "unfinished":
        total = f" of {human_bytes(choice.size)}" if choice.size else ""
        said = choice.problem or "Enter goes on with it; 'qchat models parts --clear' removes what is here"
        first = Content.assemble((shown_name(choice), "bold"), (f" · {human_bytes(choice.done)}{total} are here", DIM))
        return Content.assemble(first.truncate(width, ellipsis=True), "\n", (escaped(said), DIM))
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
    if verdict:
        line = Content.assemble((escaped(choice.name), "bold"), (f" · {escaped(verdict)}", GOOD))
        return Content.assemble(line.truncate(width, ellipsis=True), "\n", second)
    best = "the best for this machine" if choice.best else ""
    about = [escaped(text) for text in (choice.title, best, choice.licence, choice.note) if text]
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
    if not fit.kv_per_token:  # the name of a file does not tell
        return f"{about}{weights} of weights + the conversation + the program"
    sentence = f"{about}{weights} of weights + {about}{cache} for {fit.context:,} tokens + the program"
    if fit.verdict == "tight":
        sentence += f"; {human_bytes(fit.free or 0)} free is enough for {about}{fit.tokens or 0:,} tokens"
    return sentence


def _share(transfer: Transfer, expected: int) -> float:
    total = transfer.total or expected
    return min(1.0, transfer.done / total) if total else 0.0


def _about(choice: Choice) -> str:
    return "~" if choice.place in ("catalogue", "offer") else ""


def _memory_cells(width: int) -> int:
    return SHORT_MEMORY if width < NARROW else MEMORY


def _cut(name: Content, cells: int) -> Content:
    """A name that is too long keeps its end, where names of one family differ."""
    over = name.cell_length - cells
    if over <= 0:
        return name
    kept = name.plain
    while cell_len(kept) > cells - 1:
        kept = kept[1:]
    return Content(f"…{kept}")


def _size(choice: Choice) -> str:
    about = "~" if choice.place == "catalogue" else ""
    return about + human_bytes(choice.size) if choice.size else ""


def _kind(choice: Choice) -> str:
    return choice.licence if choice.place == "catalogue" else choice.quantisation


def _line(cells: Sequence[tuple[Content | str, int]]) -> Content:
    """Cells beside each other, the last without its padding; a width below zero aligns to the right."""
    parts: list[Content] = []
    for cell, width in cells:
        content = Content(cell) if isinstance(cell, str) else cell
        content = content.truncate(abs(width), ellipsis=True)
        free = abs(width) - content.cell_length if len(parts) < len(cells) - 1 else 0
        parts.append(content.pad_left(free) if width < 0 else content.pad_right(free))
    return Content(" " * GAP).join(parts)
