"""Filters and tests that Jinja2 or transformers define by Python's own functions, and minijinja by Rust's.

A filter raises what Python raises; `environment.py` adds the template's line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from app.templates.limits import MAX_INDENT, check_size, check_width
from app.templates.values import UNDEFINED, Number, number, unwrapped


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


def _trim(value: Any, chars: str | None = None) -> str:
    return str(value).strip(chars)


def _int(value: Any, default: Any = 0, base: int = 10) -> Any:
    """Jinja2's `do_int`: text that is no integer is tried as a float."""
    value = number(value)
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
    try:
        result = float(number(value))
    except (TypeError, ValueError):
        return Number(default) if isinstance(default, float) else default
    return Number(result)


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


FILTERS: dict[str, Callable[..., Any]] = {
    "tojson": _tojson,
    "trim": _trim,
    "int": _int,
    "float": _float,
    "indent": _indent,
    "title": _title,
    "replace": _replace,
    "capitalize": lambda text: str(text).capitalize(),
    "upper": lambda text: str(text).upper(),
    "lower": lambda text: str(text).lower(),
}

TESTS: dict[str, Callable[[Any], bool]] = {
    "iterable": lambda value: isinstance(value, str) or hasattr(value, "__iter__"),
    "sequence": lambda v: v is UNDEFINED or (hasattr(v, "__getitem__") and hasattr(v, "__len__")),
    "callable": callable,
    "number": lambda value: isinstance(number(value), (int, float)),
    "float": lambda value: isinstance(number(value), float),
    "integer": lambda value: isinstance(number(value), int) and not isinstance(value, bool),
}
