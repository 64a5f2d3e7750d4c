"""Values as templates see them: an undefined that survives the way to Python, and numbers that Python must print.

minijinja hands an integral float to a Python function as an int, and writes large and small floats its own way. Such
numbers inside messages and tools travel as `Number` objects; ordinary ones stay numbers, so that templates can compare
and add them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn


class Undefined:
    """What `x` is in Python when the template has no `x`: empty, and of no use to `json.dumps`."""

    def __str__(self) -> str:
        return ""

    def __repr__(self) -> str:
        return "Undefined"

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[NoReturn]:
        return iter(())


UNDEFINED = Undefined()


class Number:
    """A float or a large int that prints as Python prints it."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)

    __repr__ = __str__

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError("a number has no items")  # without this method, minijinja's `in` finds nothing and goes on

    def __bool__(self) -> bool:
        return bool(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == number(other))

    def __lt__(self, other: object) -> bool:
        return bool(self.value < number(other))


def number(value: Any) -> Any:
    """The number in a `Number`; any other value itself."""
    return value.value if isinstance(value, Number) else value


def wrapped(value: Any) -> Any:
    """A copy of `value` for a template, which therefore cannot change the caller's data."""
    if isinstance(value, float):
        plain = math.isfinite(value) and not value.is_integer() and "e" not in repr(value)
        return value if plain else Number(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return Number(value)
    if isinstance(value, dict):
        return {key: wrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(wrapped, value))
    return value


def unwrapped(value: Any) -> Any:
    """`value` as minijinja gave it to Python, with plain numbers: what `json.dumps` and `%` need."""
    if isinstance(value, dict):
        return {key: unwrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrapped, value))
    return number(value)
