"""Methods that templates call on strings and lists, with CPython's meaning, and `"format" % value`.

Templates are written against Python: `split`, `strip` and `title` mean what `str` makes of them, keyword arguments and
odd whitespace included. Changing a list or a dict in place is refused, as Jinja2's immutable sandbox refuses it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from app.templates.limits import MAX_WIDTH, TemplateFailure, check_size, check_width
from app.templates.values import UNDEFINED, unwrapped

_OF_STR = frozenset(name for name in dir(str) if not name.startswith("_")) - {"encode", "maketrans"}
_CHANGING = frozenset(
    [
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    ]
)
_PADDING = frozenset(["center", "expandtabs", "ljust", "rjust", "zfill"])
METHODS = _OF_STR | _CHANGING


def call_method(receiver: Any, name: str, line: int, *arguments: Any, **keywords: Any) -> Any:
    """`receiver.name(*arguments)`; raises TemplateFailure without any value of the receiver in its text."""
    try:
        if isinstance(receiver, str) and name in _OF_STR:
            return _call_on_string(str(receiver), name, arguments, keywords)
        if isinstance(receiver, (list, tuple)) and name == "count":
            return receiver.count(*arguments)
        if isinstance(receiver, (list, tuple)) and name == "index":
            return _index(receiver, *arguments)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TemplateFailure(line, f".{name}(): {error}") from None
    if name in _CHANGING and receiver is not UNDEFINED and not isinstance(receiver, str):
        raise TemplateFailure(line, f".{name}(): a template may not change a value in place")
    kind = "an undefined value" if receiver is UNDEFINED else type(receiver).__name__
    raise TemplateFailure(line, f".{name}(): {kind} has no such method")


def _index(values: Sequence[Any], wanted: Any, *bounds: int) -> int:
    try:
        return values.index(wanted, *bounds)
    except ValueError:
        raise ValueError("no such item") from None  # Python's text repeats the item


def _call_on_string(text: str, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if name in _PADDING:
        for width in (*arguments, *keywords.values()):
            check_width(width)
    elif name == "format":
        return _BoundedFormatter().vformat(text, unwrapped(arguments), unwrapped(keywords))
    elif name == "format_map":
        return _BoundedFormatter().vformat(text, (), unwrapped(arguments[0]))
    elif name == "replace" and len(arguments) > 1 and len(arguments[1]) > len(arguments[0]):
        check_size((len(text) + 1) * (len(arguments[1]) + 1))
    elif name == "join":
        arguments = (list(arguments[0]),) if len(arguments) == 1 else arguments
        check_size(len(text) * len(arguments[0]) + sum(len(item) for item in arguments[0]))
    elif name == "translate":
        longest = max((len(value) for value in arguments[0].values() if isinstance(value, str)), default=1)
        check_size(len(text) * longest)
    return getattr(text, name)(*arguments, **keywords)


class _BoundedFormatter(string.Formatter):
    """`str.format` that reaches no attribute with an underscore and pads nothing to gigabytes."""

    def __init__(self) -> None:
        self._length = 0

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if "._" in field_name or "[_" in field_name:
            raise ValueError("a format field with an underscore")
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        _check_widths_in(format_spec)
        text = str(super().format_field(value, format_spec))
        self._length += len(text)
        check_size(self._length)
        return text


def format_percent(pattern: str, line: int, value: Any) -> str:
    """`pattern % value`; raises TemplateFailure."""
    value = unwrapped(value)
    try:
        _check_widths_in(pattern)
        if "*" in pattern:  # a width among the values
            for item in value if isinstance(value, tuple) else (value,):
                check_width(item)
        text: str = pattern % value
        check_size(len(text))
        return text
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TemplateFailure(line, f"%: {error}") from None


def _check_widths_in(pattern: str) -> None:
    for digits in re.findall(r"\d+", pattern):
        check_width(MAX_WIDTH + 1 if len(digits) > len(str(MAX_WIDTH)) else int(digits))
