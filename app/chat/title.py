"""A title for a chat out of its first question, so that a list of chats can be read."""

from __future__ import annotations

import re

WIDEST = 60  # columns of a terminal

_MARKS = re.compile(r"^(?:[#>\-*+=|~`\s]|\d+[.)]\s)+|[`*_~|\s]+$")  # headings, lists, quotes, fences, rules
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_EMPHASIS = re.compile(r"\*\*|__|`+")
_JOINERS = "\u200c\u200d"  # parts of emoji and of Persian words
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
    shown = "".join(c if c.isprintable() or c in _JOINERS else " " for c in line)
    return " ".join(_EMPHASIS.sub("", _MARKS.sub("", shown)).split())


def _cut(text: str) -> str:
    """`text` in WIDEST columns, cut between words where there is a gap in its second half."""
    from wcwidth import iter_graphemes, wcswidth  # noqa: PLC0415 - slow; the app's first picture needs no new title

    if wcswidth(text) <= WIDEST:
        return text
    head, columns = "", 1  # one for the ellipsis
    for character in iter_graphemes(text):
        columns += max(wcswidth(character), 0)
        if columns > WIDEST:
            break
        head += character
    gap = len(head) if text[len(head)] == " " else head.rfind(" ")
    return (head[:gap] if gap > len(head) // 2 else head).rstrip() + "…"
