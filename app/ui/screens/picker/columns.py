"""The sections of the list and the columns of their rows, in cells, so that they fit the width and stand in line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from app.hub.choices import Choice, Place
from app.ui.screens.picker.text import escaped, shown_name

HEADINGS: Mapping[Place, str] = {
    "disk": "On this disk",
    "unfinished": "Not complete",
    "repository": "A repository",
    "catalogue": "To download",
    "server": "Servers",
    "backend": "Other backends",
}
GAP = 2  # cells between columns
SIZE, CONTEXT, MEMORY, SHORT_MEMORY = 9, 7, 28, 14  # cells of these columns
NARROW = 90  # cells below which what is free, which stands in the frame, is not repeated in the rows
LEAST_NAME = 12
LEAST_KIND = 10  # where there is as much to show


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
    room = max(LEAST_NAME + 4, width - (SIZE + CONTEXT + memory_cells(width) + 4 * GAP))
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for choice in choices:
        if choice.place != "server":
            title = title_of(choice)
            names[title] = max(names.get(title, cell_len(title)), cell_len(shown_name(choice)))
            kinds[title] = max(kinds.get(title, cell_len("type")), cell_len(escaped(kind_of(choice))))
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


def memory_cells(width: int) -> int:
    """The cells of the last column in rows of `width` cells."""
    return SHORT_MEMORY if width < NARROW else MEMORY


def kind_of(choice: Choice) -> str:
    """What stands in the second column: the weights' type or the licence."""
    return choice.licence if choice.place == "catalogue" else choice.quantisation
