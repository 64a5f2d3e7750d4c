"""Jinja2's filters with Python's meaning, by name, and transformers' `tojson`.

Arguments are plain numbers and never minijinja's undefined (`values.py`). A filter raises what Python raises;
`functions.py` adds the template's line. `sequences.py` has the filters of lists. What is missing makes HTML or is
random, and no published chat template uses it: it is refused by name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from app.templates.limits import MAX_INDENT, check_size, check_width
from app.templates.operators import format_percent
from app.templates.sequences import SEQUENCE_FILTERS
from app.templates.values import UNDEFINED, unwrapped


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers sets it up: other scripts stay readable and nothing is escaped for HTML."""
    check_width(len(indent) if isinstance(indent, str) else indent, MAX_INDENT)
    text = json.dumps(
        unwrapped(value), ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    check_size(len(text))
    return text


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return default_value if value is UNDEFINED or (boolean and not value) else value


def _trim(value: Any, chars: str | None = None) -> str:
    return str(value).strip(chars)


def _int(value: Any, default: Any = 0, base: int = 10) -> Any:
    """Jinja2's `do_int`: text that is no integer is tried as a float."""
    if value is UNDEFINED:
        raise TypeError("an undefined value is no number")
    try:
        return int(value, base) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        try:
            return int(float(value))
        except (TypeError, ValueError, OverflowError):
            return default


def _float(value: Any, default: Any = 0.0) -> Any:
    if value is UNDEFINED:
        raise TypeError("an undefined value is no number")
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if method not in ("common", "ceil", "floor"):
        raise ValueError("the method must be common, ceil or floor")
    if method == "common":
        return round(value, precision)
    return getattr(math, method)(value * (10**precision)) / (10**precision)


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Jinja2's `do_indent`: every line but the first, and no empty one unless `blank`."""
    check_width(len(width) if isinstance(width, str) else width, MAX_INDENT)
    margin = width if isinstance(width, str) else " " * width
    head, *rest = (text + "\n").splitlines()  # fails for what is not text, as in Jinja2
    check_size(len(head) + sum(len(line) + len(margin) + 1 for line in rest))
    lines = [margin + line if line or blank else line for line in rest]
    return (margin if first else "") + "\n".join([head, *lines])


def _title(text: Any) -> str:
    words = re.split(r"([-\s({\[<]+)", str(text))
    return "".join(word[0].upper() + word[1:].lower() for word in words if word)


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    before, old, new = str(text), str(old), str(new)
    if len(new) > len(old):
        check_size((len(before) + 1) * (len(new) + 1))
    return before.replace(old, new, -1 if count is None else count)


def _format(pattern: Any, *arguments: Any, **keywords: Any) -> str:
    if arguments and keywords:
        raise TypeError("positional and keyword arguments at the same time")
    return format_percent(str(pattern), keywords or arguments)


def _center(text: Any, width: int = 80) -> str:
    check_width(width)
    return str(text).center(width)


def _truncate(text: str, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5) -> str:
    if length < len(end) or leeway < 0:
        raise ValueError("a length or leeway that is too small")
    if len(text) <= length + leeway:
        return text
    cut = text[: length - len(end)]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


FILTERS: dict[str, Callable[..., Any]] = {
    **SEQUENCE_FILTERS,
    "abs": abs,
    "capitalize": lambda text: str(text).capitalize(),
    "center": _center,
    "d": _default,
    "default": _default,
    "float": _float,
    "format": _format,
    "indent": _indent,
    "int": _int,
    "lower": lambda text: str(text).lower(),
    "replace": _replace,
    "round": _round,
    "safe": str,
    "string": str,
    "title": _title,
    "tojson": _tojson,
    "trim": _trim,
    "truncate": _truncate,
    "upper": lambda text: str(text).upper(),
    "wordcount": lambda text: len(re.findall(r"\w+", str(text))),
}
