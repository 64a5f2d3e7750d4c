"""Methods that templates call on strings, lists and dicts, with CPython's meaning.

Templates are written against Python: `split`, `strip` and `title` mean what `str` makes of them, keyword arguments and
odd whitespace included. Changing a list or a dict in place is refused, as Jinja2's immutable sandbox refuses it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.templates.limits import check_size, check_width, check_widths_in
from app.templates.values import UNDEFINED, unwrapped

_CHANGING = frozenset(
    ["append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"]
)
_METHODS: dict[type, frozenset[str]] = {
    kind: frozenset(name for name in dir(kind) if not name.startswith("_")) - {"encode", "maketrans", "fromkeys"}
    for kind in (str, list, tuple, dict)
}
_PADDING = frozenset(["center", "expandtabs", "ljust", "rjust", "zfill"])
METHODS = frozenset().union(*_METHODS.values())


def has_method(receiver: Any, name: str) -> bool:
    """Whether `receiver` has a method `name` in Python that a template may know of."""
    return name in _METHODS.get(type(receiver), ())


def call_method(receiver: Any, name: str, *arguments: Any, **keywords: Any) -> Any:
    """`receiver.name(*arguments)`; an error has no value of the receiver in its text."""
    if not has_method(receiver, name):
        kind = "an undefined value" if receiver is UNDEFINED else type(receiver).__name__
        raise TypeError(f"{kind} has no such method")
    if isinstance(receiver, str):
        return _call_on_string(receiver, name, arguments, keywords)
    if name in _CHANGING:
        raise TypeError("a template may not change a value in place")
    if name == "index":
        return _index(receiver, *arguments)
    return getattr(receiver, name)(*arguments, **keywords)


def bound_method(receiver: Any, name: str) -> Callable[..., Any]:
    """`receiver.name` without a call."""

    def method(*arguments: Any, **keywords: Any) -> Any:
        return call_method(receiver, name, *arguments, **keywords)

    return method


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
        check_widths_in(format_spec)
        text = str(super().format_field(value, format_spec))
        self._length += len(text)
        check_size(self._length)
        return text
