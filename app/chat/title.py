"""A title for a chat out of its first question, so that a list of chats can be read."""

from __future__ import annotations

import re
import unicodedata

WIDEST = 60  # columns of a terminal

_MARKS = re.compile(r"^(?:[#>\-*+=|~`\s]|\d+[.)]\s)+|[`*_~|\s]+$")  # headings, lists, quotes, fences, rules
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_EMPHASIS = re.compile(r"\*\*|__|`+")
_LONGEST = 4 * WIDEST  # characters of a line that are looked at: it may be a whole pasted file


def title_of(question: str) -> str:
    """The first line that says something, without Markdown's marks, at most WIDEST columns wide; "" if there is none.

    A line of code is taken only where there is nothing else.
    """
    in_code, code = False, ""
    for line in question.splitlines():
        piece = line[:_LONGEST]
        if _FENCE.match(piece):
            in_code = not in_code
        elif words := _plain(piece):
            if not in_code:
                return _cut(words)
            code = code or words
    return _cut(code)


def _plain(line: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in line)
    return " ".join(_EMPHASIS.sub("", _MARKS.sub("", shown)).split())


def _cut(text: str) -> str:
    """`text` in WIDEST columns, cut between words where there is a gap in its second half."""
    if sum(map(_columns, text)) <= WIDEST:
        return text
    end, columns = 0, _columns(text[0])
    while columns < WIDEST:  # one column is left for the ellipsis
        end += 1
        columns += _columns(text[end])
    gap = text.rfind(" ", 0, end + 1)
    return text[: gap if gap > end // 2 else end].rstrip() + "…"


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
