"""How the list writes its rows: a heading with the names of the columns, and one line for each model."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from app.cli.fit_text import fit_text
from app.cli.progress import human_bytes
from app.hub.choices import Choice, Place
from app.ui.screens.picker.columns import CONTEXT, GAP, NARROW, SIZE, Columns, kind_of, memory_cells, title_of
from app.ui.screens.picker.text import BAD, DIM, GOOD, WARN, escaped, roughly, shown_name

WITHOUT_COLUMNS: tuple[Place, ...] = ("repository", "server", "backend")


def heading(choice: Choice, columns: Columns, width: int) -> Content:
    """The line above the section of `choice`, which also names its columns."""
    title = Content.styled(title_of(choice).ljust(columns.name), "bold $text-primary")
    if choice.place in WITHOUT_COLUMNS:
        return title.truncate(width)
    kind = "licence" if choice.place == "catalogue" else "" if choice.place == "unfinished" else "type"
    rest = _line([(kind, columns.kind), ("size", -SIZE), ("context", -CONTEXT), ("memory", memory_cells(width))])
    if choice.place == "unfinished":
        rest = _line([("", columns.kind), ("size", -SIZE), ("", -CONTEXT), ("here", memory_cells(width))])
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
            (Content.styled(escaped(kind_of(choice)), DIM), columns.kind),
            (Content(_size(choice)), -SIZE),
            (Content.styled(f"{choice.context:,}" if choice.context else "", DIM), -CONTEXT),
            (Content.styled("failed", f"bold {BAD}") if failed else memory, memory_cells(width)),
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
    words = fit_text(fit, roughly(choice))
    if width < NARROW:
        words = words.partition(",")[0]
    return Content.styled(f"{words}, best" if choice.best and width >= NARROW else words, colour)


def _about_server(choice: Choice, in_use: bool) -> Content:
    if choice.problem:
        return Content.styled(escaped(choice.problem), BAD)
    if in_use:
        return Content.styled("in use", "bold $text-primary")
    return Content.styled(escaped(choice.note) if choice.complete else "asking ...", DIM)


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


def _line(cells: Sequence[tuple[Content | str, int]]) -> Content:
    """Cells beside each other, the last without its padding; a width below zero aligns to the right."""
    parts: list[Content] = []
    for cell, width in cells:
        content = Content(cell) if isinstance(cell, str) else cell
        content = content.truncate(abs(width), ellipsis=True)
        free = abs(width) - content.cell_length if len(parts) < len(cells) - 1 else 0
        parts.append(content.pad_left(free) if width < 0 else content.pad_right(free))
    return Content(" " * GAP).join(parts)
