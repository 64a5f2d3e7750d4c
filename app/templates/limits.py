"""Bounds on what a template may ask of the functions that are written in Python, where minijinja's fuel does not count.

Sizes are above what any published chat template needs (the longest has 45 KB, 549 tags and 3,497 tokens in a tag), and
meant to keep a single call short; the renderer's process limits are what bounds time and memory.
"""

from __future__ import annotations

import re

MAX_SOURCE = 1 << 18  # characters
MAX_TAGS = 4_000
MAX_TAG_TOKENS = 4_500  # 20,000 chained operators overflow the native stack; 5,000 fit 8 MB
MAX_STRING = 1 << 24  # characters of one string that a function may build
MAX_OUTPUT = 1 << 26  # characters, counted where values are printed
MAX_WIDTH = 100_000  # of a format field or of padding
MAX_RANGE = 100_000  # numbers in a range, as Jinja2's sandbox has it
MAX_BITS = 1 << 14  # of the result of a power
MAX_INDENT = 100  # spaces a level, of `tojson` and `indent`


class TemplateFailure(Exception):  # noqa: N818 - becomes an app.errors.TemplateError, which is what callers catch
    """A render or a rewrite that cannot go on, and the template's line if it is known."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class Refusal(TemplateFailure):
    """The template's own `raise_exception(message)`."""


def check_size(length: int) -> None:
    """Refuse to build a string of `length` characters if that is too long."""
    if length > MAX_STRING:
        raise ValueError(f"a string of more than {MAX_STRING:,} characters")


def check_width(width: object, most: int = MAX_WIDTH) -> None:
    """Refuse a padding, field width or indent over `most`; anything that is not a number is somebody else's error."""
    if isinstance(width, int) and width > most:
        raise ValueError(f"a width of more than {most:,}")


def check_widths_in(pattern: str) -> None:
    """Refuse a `%` or `format` pattern with a large number in it."""
    for digits in re.findall(r"\d+", pattern):
        check_width(MAX_WIDTH + 1 if len(digits) > len(str(MAX_WIDTH)) else int(digits))
