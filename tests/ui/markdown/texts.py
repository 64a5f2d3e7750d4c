"""Markdown for the tests: random texts of pieces that meet badly, and what a widget shows of a text."""

from __future__ import annotations

import random

from app.ui.markdown.flow import Flow
from app.ui.markdown.stream import MarkdownStream
from app.ui.markdown.wrap import Row

# No link definitions: what they change later is the one allowed difference.
PIECES = (
    *(
        "a",
        "b c",
        "word " * 9,
        "中文",
        "e\u0301",
        "👨\u200d👩\u200d👧 ",
        "\\",
        "!",
        "[a](b)",
        "<b>",
        "&#13;",
        "\x1b[2J",
        "\t",
    ),
    *("- ", "* ", "+ x\n", "1. ", "2) ", "10. y\n", "- z\n\n", "  - n\n", "[x] ", "[ ] ", "> ", ">"),
    *("\n", "\n\n", "\r\n", "\r", "\n   ", "    ", "  ", "    code\n", "===", "==", "---", "#", "# "),
    *("```", "```py\n", "~~~", "`", "\n```\n", "**", "*", "_", "~~", "|", "| a | b |\n", "|--|:-:|\n", "|-", "x | y\n"),
)


def random_text(seed: int) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 25)))


def rows_of_text(text: str, width: int = 40) -> list[Row]:
    """The rows of `text` given at once."""
    stream = MarkdownStream()
    stream.feed(text)
    flow = Flow(width)
    flow.update(stream)
    return flow.rows


def shown(text: str, width: int = 40) -> list[str]:
    return ["".join(piece.text for piece in row.pieces).rstrip() for row in rows_of_text(text, width)]
