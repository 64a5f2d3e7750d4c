"""What Python makes of operators, attributes and slices; templates are written against that.

minijinja orders values of any types, adds booleans, and knows no `%` of strings. Here a wrong type is a TypeError.
Arguments are plain numbers; a result that is a float becomes a `Number` again in `functions.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from app.templates.limits import MAX_BITS, MAX_RANGE, MAX_STRING, check_size, check_width, check_widths_in
from app.templates.methods import bound_method, has_method
from app.templates.values import UNDEFINED, unwrapped


def calculate(first: Any, *rest: Any) -> Any:
    """`first + a - b ...` from the left; `rest` is "+", a, "-", b."""
    for symbol, other in zip(rest[::2], rest[1::2], strict=True):
        first = _ARITHMETIC[symbol](first, other)
    return first


def compare(first: Any, *rest: Any) -> Any:
    """`first < a <= b ...`; `rest` is "<", a, "<=", b."""
    for symbol, other in zip(rest[::2], rest[1::2], strict=True):
        result = COMPARISONS[symbol](first, other)
        if not result:
            return result
        first = other
    return True


def concatenate(*values: Any) -> str:
    """`a ~ b`."""
    text = "".join(map(str, values))
    check_size(len(text))
    return text


def format_percent(pattern: str, values: Any) -> str:
    """`pattern % values`."""
    check_widths_in(pattern)
    if "*" in pattern:  # a width among the values
        for item in values if isinstance(values, tuple) else (values,):
            check_width(item)
    text: str = pattern % unwrapped(values)
    check_size(len(text))
    return text


def item(value: Any, key: Any) -> Any:
    """`value[key]`, where an item comes before a method of that name; UNDEFINED where there is neither."""
    try:
        return value[key]
    except (AttributeError, LookupError, TypeError):
        return bound_method(value, key) if isinstance(key, str) and has_method(value, key) else UNDEFINED


def attribute(value: Any, name: str) -> Any:
    """`value.name` for the name of a method: the method comes before an item of that name, as in Jinja2."""
    if value is UNDEFINED:
        raise TypeError("an undefined value has no attributes")
    return bound_method(value, name) if has_method(value, name) else item(value, name)


def sliced(value: Any, start: Any, stop: Any = None, step: Any = None) -> Any:
    """`value[start:stop:step]`."""
    return value[start:stop:step]


def numbers_in_range(*bounds: int) -> Sequence[int]:
    """`range(...)` of at most 100,000 numbers, as in Jinja2's sandbox."""
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise OverflowError(f"a range of more than {MAX_RANGE:,} numbers")
    return numbers


def iterate(values: Any, targets: int = 1) -> Any:
    """What a `for` runs over, each item as a tuple of `targets` where there are several.

    minijinja runs over None as if it were empty, and knows no end of text and of generators.
    """
    if not isinstance(values, (list, tuple, dict)):
        values = list(values)
    return values if targets == 1 else [unpack(value, targets) for value in values]


def unpack(value: Any, targets: int) -> tuple[Any, ...]:
    """`a, b = value`."""
    parts = tuple(value)
    if len(parts) != targets:
        raise ValueError(f"{len(parts)} values for {targets} names")
    return parts


def _multiply(left: Any, right: Any) -> Any:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, (str, list, tuple)) and isinstance(times, int) and len(many) * times > MAX_STRING:
            raise ValueError(f"a product of more than {MAX_STRING:,} items")
    return left * right


def _remainder(left: Any, right: Any) -> Any:
    return format_percent(left, right) if isinstance(left, str) else left % right


def _power(left: Any, right: Any) -> Any:
    if isinstance(right, int) and isinstance(left, int) and abs(right) * left.bit_length() > MAX_BITS:
        raise OverflowError("too large a power")
    return left**right


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": _multiply,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": _remainder,
    "**": _power,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
