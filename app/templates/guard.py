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
from functools import cached_property
from os.path import commonprefix
from typing import Any

# Noncharacters first (Unicode 23.7: never interchanged), then a private plane, so that an unused one is always found.
MARKS = tuple(map(chr, itertools.chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xFFFFE))))

Marking = Callable[[str, str], str]  # (text, mark) -> the text with marks in it


@dataclass(frozen=True)
class Segment:
    """A piece of the prompt. In trusted text a token's literal is that token; in the rest it is plain text."""

    text: str
    trusted: bool


class Guard:
    """The token literals of one vocabulary: how to mark them, and how to find them again.

    Patterns are compiled once and when they are needed, since there may be thousands of literals. `control` and
    `markup` are those of `render.PromptTokens`.
    """

    def __init__(self, control: Collection[str], markup: Collection[str]) -> None:
        self._control = control
        self._markup = markup
        self._except_markup = firm(control, keep=markup)
        self._everything = firm({*control, *markup})

    @cached_property
    def _exact(self) -> Marking:
        return exact(self._control)

    @cached_property
    def _literal(self) -> re.Pattern[str]:
        return re.compile(_any_of(_steering({*self._control, *self._markup})))

    def markings(self) -> Iterator[tuple[Marking, Marking]]:
        """How to mark the model's own messages, and everybody else's text, the strongest first."""
        yield self._except_markup, self._everything
        yield self._except_markup, self._except_markup
        yield self._exact, self._exact

    def take_out(self, rendered: str, mark: str) -> list[Segment]:
        """The rendered text without marks, split so that a literal which had a mark inside is an untrusted segment."""
        pieces = re.split(f"{re.escape(mark)}|{re.escape(_json_escape(mark))}", rendered)
        cuts = list(itertools.accumulate(map(len, pieces[:-1])))
        text = "".join(pieces)
        segments, trusted_from = [], 0
        for found in self._literal.finditer(text):
            next_cut = bisect_right(cuts, found.start())
            if next_cut < len(cuts) and cuts[next_cut] < found.end():
                segments += [Segment(text[trusted_from : found.start()], True), Segment(found[0], False)]
                trusted_from = found.end()
        return [segment for segment in [*segments, Segment(text[trusted_from:], True)] if segment.text]


def firm(literals: Collection[str], keep: Collection[str] = ()) -> Marking:
    """Marks after every character that can begin one of `literals`, except where a literal to `keep` begins.

    A text that can end a literal gets one in front too, because a template may have written the beginning: Qwen3
    Coder writes `<`, a key of a tool's schema, `>`. Names get none: they are what templates make tokens of.
    """
    guarded = _steering(literals)
    kept = _by_first_character(_steering(keep))
    beginning = re.compile(
        "|".join(
            re.escape(first) + (f"(?!{_any_of(kept[first])})" if first in kept else "")
            for first in _by_first_character(guarded)
        )
        or r"(?!)"
    )
    insides = "\0".join(text[1:] for text in guarded)
    ends = {text[n:] for text in guarded for n in range(1, len(text))}
    longest = max(map(len, ends), default=0)
    last = re.compile(_any_of({text[-1] for text in guarded}))

    def put(text: str, mark: str) -> str:
        marked = beginning.sub(lambda found: found[0] + mark, text)
        if not text or text.isidentifier():
            return marked
        continues = text in insides or any(text[: end.end()] in ends for end in last.finditer(text, 0, longest))
        return mark + marked if continues else marked

    return put


def exact(literals: Collection[str]) -> Marking:
    """Marks inside every one of `literals`, overlapping ones too, and after an unfinished one at a text's end."""
    guarded = _steering(literals)
    start = re.compile(  # the first character only, so that overlapping literals are found too
        "|".join(f"{re.escape(first)}(?={_any_of(rests)})" for first, rests in _by_first_character(guarded).items())
        or r"(?!)"
    )
    beginnings = {text[:n] for text in guarded for n in range(1, len(text))}
    longest = max(map(len, beginnings), default=0)

    def put(text: str, mark: str) -> str:
        marked = start.sub(lambda found: found[0] + mark, text)
        unfinished = any(text[-n:] in beginnings for n in range(1, min(longest, len(text)) + 1))
        return marked + mark if unfinished else marked

    return put


def unused_marks(count: int, *texts: str) -> list[str]:
    """Marks that occur in none of `texts`, neither themselves nor as JSON escapes."""
    text = "\n".join(texts)
    unused = (mark for mark in MARKS if mark not in text and _json_escape(mark) not in text)
    return list(itertools.islice(unused, count))


def _steering(literals: Collection[str]) -> list[str]:
    """The literals that have an inside; no vocabulary steers a model with a single character."""
    return [text for text in literals if len(text) > 1]


def _by_first_character(literals: Collection[str]) -> dict[str, list[str]]:
    """What follows the first character. A pattern that begins with that character is searched for much faster."""
    rests: dict[str, list[str]] = {}
    for text in filter(None, literals):
        rests.setdefault(text[0], []).append(text[1:])
    return rests


def _any_of(texts: Collection[str]) -> str:
    """A pattern of the texts, the longest that fits, as tokenizers match added tokens.

    It branches where texts do, like a tree: one after the other, thousands that begin alike take long to look for.
    """
    if not texts:
        return r"(?!)"
    shared = commonprefix(list(texts))  # noqa: RUF071 - characters are meant, not folders
    longer = _by_first_character([text.removeprefix(shared) for text in texts])
    branches = [re.escape(first) + _any_of(rests) for first, rests in longer.items()]
    ends_here = "?" if shared in texts else ""
    return re.escape(shared) + (f"(?:{'|'.join(branches)}){ends_here}" if branches else "")


def _json_escape(mark: str) -> str:
    """What `tojson(ensure_ascii=True)` makes of a mark."""
    return json.dumps(mark)[1:-1]


def strings_in(value: Any) -> list[str]:
    """Every string in `value`, the keys of mappings too."""
    found: list[str] = []

    def look_into(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                look_into(key)
                look_into(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                look_into(item)

    look_into(value)
    return found


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every string in it changed, the keys of mappings too; lists and mappings are copied."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_strings(key, change): map_strings(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_strings(item, change) for item in value]
    return value
