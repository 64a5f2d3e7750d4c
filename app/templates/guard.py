"""Marks that keep people's text recognisable through a template: put in before a render, taken out after it.

A rendered prompt is one string, so a typed `<|im_end|>` looks like one that the template wrote. A *mark* is one
character that occurs nowhere in the conversation, put where a token literal could begin in people's text. Each mark is
a cut: after the render, a literal that spans a cut is somebody's text, and every other one is the template's.

A template does things to text, so marks come in two strengths. *Firm* ones follow every character that begins any
literal: a literal stays recognisable even where a template makes it out of harmless text (some take `/think` out of
what a person wrote, and `<|im_/thinkend|>` is a token then). *Exact* ones stand in whole literals alone, for templates
that look for other text which begins alike.
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

Marking = Callable[[str], str]


@dataclass(frozen=True)
class Segment:
    """A piece of the prompt. In trusted text a token's literal is that token; in the rest it is plain text."""

    text: str
    trusted: bool


class Guard:
    """One mark, and every token literal of a vocabulary."""

    def __init__(self, literals: Collection[str], mark: str) -> None:
        self._mark = mark
        self._literal = re.compile(_any_of(literals))
        self._marks = re.compile(f"{re.escape(mark)}|{re.escape(_json_escape(mark))}")

    def firm(self, literals: Collection[str], keep: Collection[str] = ()) -> Marking:
        """Marks after every character that can begin one of `literals`, except where a literal to `keep` begins.

        A text that can end a literal gets one in front too, because a template may have written the beginning: Qwen3
        Coder writes `<`, a key of a tool's schema, `>`. Names get none: they are what templates make tokens of.
        """
        guarded = _steering(literals)
        firsts = "".join({re.escape(text[0]) for text in guarded})
        beginning = re.compile(f"(?!{_any_of(keep)})[{firsts}]" if firsts else r"(?!)")
        insides = "\0".join(text[1:] for text in guarded)
        ends = {text[n:] for text in guarded for n in range(1, len(text))}
        longest = max(map(len, ends), default=0)

        def put(text: str) -> str:
            marked = beginning.sub(lambda found: found[0] + self._mark, text)
            if not text or text.isidentifier():
                return marked
            continues = text in insides or any(text[:n] in ends for n in range(1, min(longest, len(text)) + 1))
            return self._mark + marked if continues else marked

        return put

    def exact(self, literals: Collection[str]) -> Marking:
        """Marks inside every one of `literals`, overlapping ones too, and after an unfinished one at a text's end."""
        guarded = _steering(literals)
        starts = "|".join(f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in guarded) or r"(?!)"
        start = re.compile(starts)  # the first character only, so that overlapping literals are found too
        beginnings = {text[:n] for text in guarded for n in range(1, len(text))}
        longest = max(map(len, beginnings), default=0)

        def put(text: str) -> str:
            marked = start.sub(lambda found: found[0] + self._mark, text)
            unfinished = any(text[-n:] in beginnings for n in range(1, min(longest, len(text)) + 1))
            return marked + self._mark if unfinished else marked

        return put

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


def unused_marks(count: int, *texts: str) -> list[str]:
    """Marks that occur in none of `texts`, neither themselves nor as JSON escapes."""
    spellings = ((mark, _json_escape(mark)) for mark in MARKS)
    unused = (mark for mark, escape in spellings if not any(mark in text or escape in text for text in texts))
    return list(itertools.islice(unused, count))


def _steering(literals: Collection[str]) -> list[str]:
    """The literals that have an inside; no vocabulary steers a model with a single character."""
    return [text for text in literals if len(text) > 1]


def _any_of(literals: Collection[str]) -> str:
    """A pattern of the literals, longest first: leftmost-longest, as tokenizers match added tokens."""
    return "|".join(map(re.escape, sorted(_steering(literals), key=len, reverse=True))) or r"(?!)"


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
