"""Jinja2's tests (`x is number`) with Python's meaning, by name."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from app.templates.values import UNDEFINED, number


def _is_iterable(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "__iter__")


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__getitem__") and hasattr(value, "__len__")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TESTS: dict[str, Callable[..., bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "callable": lambda value: value is UNDEFINED or callable(value),
    "defined": lambda value: value is not UNDEFINED,
    "divisibleby": lambda value, divisor: value % divisor == 0,
    "escaped": lambda value: hasattr(value, "__html__"),
    "even": lambda value: value % 2 == 0,
    "false": lambda value: value is False,
    "float": lambda value: isinstance(value, float),
    "in": lambda value, values: value in values,
    "integer": _is_integer,
    "iterable": _is_iterable,
    "lower": lambda value: str(value).islower(),
    "mapping": lambda value: isinstance(value, dict),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)),
    "odd": lambda value: value % 2 == 1,
    "sameas": lambda value, other: value is other,
    "sequence": _is_sequence,
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
    "undefined": lambda value: value is UNDEFINED,
    "upper": lambda value: str(value).isupper(),
    **dict.fromkeys(("==", "eq", "equalto"), operator.eq),
    **dict.fromkeys(("!=", "ne"), operator.ne),
    **dict.fromkeys((">", "gt", "greaterthan"), operator.gt),
    **dict.fromkeys((">=", "ge"), operator.ge),
    **dict.fromkeys(("<", "lt", "lessthan"), operator.lt),
    **dict.fromkeys(("<=", "le"), operator.le),
}


def test(name: str, value: Any, *arguments: Any) -> bool:
    """Whether `value` passes the test; LookupError where Jinja2 has none of that name."""
    if name not in TESTS:
        raise LookupError(f"the test {name} is unknown")
    return bool(TESTS[name](number(value), *map(number, arguments)))
