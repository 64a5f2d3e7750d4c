"""Values as templates see them: an undefined that survives the way to Python, and numbers that keep their type.

minijinja hands an undefined value to Python as None and an integral float as an int, and it writes floats its own way.
So an undefined operand becomes `UNDEFINED` before it goes to a function, and every float, and an int that does not fit
64 bits, travels as a `Number`. Ordinary ints stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from app.templates.limits import TemplateFailure


class Undefined:
    """What `x` is in Python when the template has no `x`: empty, and of no further use. Jinja2's `Undefined`."""

    def __str__(self) -> str:
        return ""

    def __repr__(self) -> str:
        return "Undefined"

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[NoReturn]:
        return iter(())

    def __getitem__(self, key: object) -> NoReturn:
        raise TemplateFailure(None, "an undefined value has no items")


UNDEFINED = Undefined()


class Number:
    """A float or a large int. Comparisons are for `sort`, `min` and `in`; functions calculate with `value`."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)

    __repr__ = __str__

    def __bool__(self) -> bool:
        return bool(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == number(other))

    def __lt__(self, other: object) -> bool:
        return bool(self.value < number(other))

    def __le__(self, other: object) -> bool:
        return bool(self.value <= number(other))

    def __gt__(self, other: object) -> bool:
        return bool(self.value > number(other))

    def __ge__(self, other: object) -> bool:
        return bool(self.value >= number(other))

    def __add__(self, other: object) -> Number:
        return Number(self.value + number(other))

    __radd__ = __add__  # `sum` begins with 0 + the first


def number(value: Any) -> Any:
    """The number in a `Number`; any other value itself."""
    return value.value if type(value) is Number else value


def as_number(value: Any) -> Any:
    """The result of a function as a template may have it: a float or a large int in a `Number`."""
    if type(value) is float or (type(value) is int and not -(2**63) <= value < 2**63):
        return Number(value)
    return value


def wrapped(value: Any) -> Any:
    """A copy of `value` for a template, which therefore cannot change the caller's data."""
    if type(value) is str:  # most values are
        return value
    if isinstance(value, dict):
        return {key: wrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(wrapped, value))
    return as_number(value)


def unwrapped(value: Any) -> Any:
    """`value` as minijinja gave it to Python, with plain numbers: what `json.dumps` and `%` need."""
    if isinstance(value, dict):
        return {number(key): unwrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrapped, value))
    return number(value)
