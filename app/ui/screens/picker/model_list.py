"""The list of the model picker: a heading and rows for each place that a model can be in, and the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.hub.choices import Choice, matching
from app.ui.screens.picker import rows
from app.ui.screens.picker.columns import Columns, columns_of, title_of
from app.ui.screens.picker.download import Download
from app.ui.screens.picker.progress import bar

CURSOR = Content.styled("› ", "bold $text-primary")  # seen without colours, too


class ModelList(OptionList, can_focus=False):
    """Shows `choices` as far as they match. What is set here is drawn by the next `show` or `redraw`.

    `wanted` is what the filter holds; `in_use` the open model; `failed` has the keys of rows whose download failed.
    """

    def __init__(self, in_use: str) -> None:
        super().__init__(id="models", markup=False)
        self.choices: Sequence[Choice] = ()
        self.wanted = ""
        self.download: Download | None = None
        self.failed: set[str] = set()
        self._in_use = in_use

    @property
    def row_width(self) -> int:
        """Cells of a row, without the cursor before it and a space behind."""
        return max(20, self.scrollable_content_region.width - 3)

    @property
    def at_key(self) -> str | None:
        """The key of the row at the cursor."""
        option = self.highlighted_option
        return option.id if option else None

    @property
    def at(self) -> Choice | None:
        """What stands at the cursor."""
        key = self.at_key
        return next((choice for choice in self.choices if choice.key == key), None)

    def show(self, at: str | None = None) -> None:
        """Fill the list, with the cursor at the row `at` or else at the first that can be chosen."""
        self.set_options(self._rows())
        keys = [option.id for option in self.options]
        usable = {choice.key for choice in self.choices if choice.usable}
        models = [option.id for option in self.options if not option.disabled]
        key = at if at in models else next((key for key in models if key in usable), next(iter(models), None))
        self.highlighted = keys.index(key) if key is not None else None

    def redraw(self) -> None:
        """Write the rows that are in the list anew."""
        for option in self._rows():
            assert option.id is not None
            self.replace_option_prompt(option.id, option.prompt)

    def show_heading(self) -> None:
        """With the cursor on the first row, show the heading above it, too."""
        models = [index for index, option in enumerate(self.options) if not option.disabled]
        if models and self.highlighted == models[0]:
            self.scroll_home(animate=False)

    def _rows(self) -> list[Option]:
        """A heading and the rows of each section that has any."""
        shown = matching(self.choices, self.wanted)
        columns = columns_of(self.choices, self.row_width)
        options: list[Option] = []
        for title in columns:
            section = [choice for choice in shown if title_of(choice) == title]
            if not section:
                continue
            if options:
                options.append(Option("", id=f"above {title}", disabled=True))
            heading = rows.heading(section[0], columns[title], self.row_width).pad_left(2)
            options.append(Option(heading, id=f"heading {title}", disabled=True))
            options += [Option(self._row(choice, columns[title]), id=choice.key) for choice in section]
        return options

    def _row(self, choice: Choice, columns: Columns) -> Content:
        in_use = choice.place in ("disk", "server") and choice.name == self._in_use
        row = rows.row(choice, columns, self.row_width, in_use=in_use, failed=choice.key in self.failed)
        row = Content.assemble(CURSOR if choice.key == self.at_key else "  ", row)
        if self.download and self.download.transfer and choice.key == self.download.choice.key:
            below = bar(self.download.transfer, choice.size, self.row_width).pad_left(2)
            return Content.assemble(row, "\n", below)
        return row
