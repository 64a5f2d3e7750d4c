"""Marks that keep people's text recognisable through a template: put in before a render, taken out after it.

A rendered prompt is one string, so a typed `<|im_end|>` looks like one that the template wrote. A *mark* is one
character that occurs nowhere in the conversation. One goes inside every token literal in people's text, and one at the
end of a text that stops in the middle of a literal, so that two texts side by side cannot make one either. Each mark
is a cut: after the render, a literal that spans a cut is somebody's text, and every other one is the template's.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

# Noncharacters first (Unicode 23.7: never interchanged), then a private plane, so that an unused one is always found.
MARKS = tuple(map(chr, itertools.chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xFFFFE))))


@dataclass(frozen=True)
class Segment:
    """A piece of the prompt. In trusted text a token's literal is that token; in the rest it is plain text."""

    text: str
    trusted: bool


class Guard:
    """One mark and the token literals that it guards against."""

    def __init__(self, literals: Collection[str], mark: str) -> None:
        # a literal of one character has no inside to mark, and no vocabulary steers a model with one
        longest_first = sorted((text for text in literals if len(text) > 1), key=len, reverse=True)
        self._mark = mark
        self._beginnings = {text[:n] for text in longest_first for n in range(1, len(text))}
        self._longest = len(longest_first[0]) - 1 if longest_first else 0  # of the beginnings
        alternatives = "|".join(map(re.escape, longest_first)) or r"(?!)"
        self._literal = re.compile(alternatives)  # longest first: leftmost-longest, as tokenizers match added tokens
        starts = "|".join(f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in longest_first) or r"(?!)"
        self._start = re.compile(starts)  # the first character only, so that overlapping literals are found too
        self._marks = re.compile(f"{re.escape(mark)}|{re.escape(_json_escape(mark))}")

    def put(self, text: str) -> str:
        """`text` with a mark inside every literal, overlapping ones too, and after an unfinished one at its end."""
        marked = self._start.sub(lambda found: found[0] + self._mark, text)
        return marked + self._mark if self._ends_inside_literal(text) else marked

    def _ends_inside_literal(self, text: str) -> bool:
        return any(text[-n:] in self._beginnings for n in range(1, min(self._longest, len(text)) + 1))

    def take_out(self, rendered: str) -> list[Segment]:
        """The rendered text without marks, split so that a literal which had a mark inside is an untrusted segment."""
        pieces = self._marks.split(rendered)
        cuts = list(itertools.accumulate(map(len, pieces[:-1])))
        text = "".join(pieces)
        segments, trusted_from = [], 0
        for found in self._literal.finditer(text):
            next_cut = bisect_right(cuts, found.start())
            if next_cut < len(cuts) and cuts[next_cut] < found.end():
                segments += [Segment(text[trusted_from : found.start()], True), Segment(found[0], False)]
                trusted_from = found.end()
        return [segment for segment in [*segments, Segment(text[trusted_from:], True)] if segment.text]


def unused_mark(*texts: str) -> str:
    """A mark that occurs in none of `texts`, neither itself nor as a JSON escape."""
    spellings = ((mark, _json_escape(mark)) for mark in MARKS)
    return next(mark for mark, escape in spellings if not any(mark in text or escape in text for text in texts))


def _json_escape(mark: str) -> str:
    """What `tojson(ensure_ascii=True)` makes of a mark."""
    return json.dumps(mark)[1:-1]


def strings_in(value: Any) -> Iterator[str]:
    """Every string in `value`, the keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in itertools.chain(value, value.values() if isinstance(value, dict) else ()):
            yield from strings_in(item)


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every string in it changed, the keys of mappings too; lists and mappings are copied."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_strings(key, change): map_strings(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_strings(item, change) for item in value]
    return value
