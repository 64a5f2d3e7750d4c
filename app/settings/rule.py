"""What one setting may be: the check that a config file, the environment and the command line share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Value = str | int | float | bool | None

OWN = "model"  # the word for "what the model itself says"; None in `Settings`


@dataclass(frozen=True)
class Rule:
    """What one setting may be. `low` and `high` are inclusive; `also` is a number allowed outside the range."""

    kind: type
    low: float = -math.inf
    high: float = math.inf
    also: int | None = None
    choices: tuple[str, ...] = ()
    own: bool = False  # may be "model"
    above_low: bool = False  # `low` itself is not allowed

    @property
    def allowed(self) -> str:
        """The allowed values in words, for messages and help texts."""
        if self.kind is bool:
            words = "true or false"
        elif self.choices:
            words = "one of " + ", ".join(self.choices)
        elif self.kind is str:
            words = "text"
        else:
            noun = "a whole number" if self.kind is int else "a number"
            if self.above_low:
                words = f"{noun} above {self.low:g} and up to {self.high:g}"
            else:
                words = f"{noun} from {self.low:.17g} to {self.high:.17g}"
            words = words if self.also is None else f"{self.also}, or {words}"
        return f'{words}, or "{OWN}"' if self.own else words

    def check(self, value: Any) -> Value:
        """`value` as this setting's type ("model" becomes None); ValueError if it is not allowed."""
        if self.own and value == OWN:
            return None
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.kind is str and isinstance(value, str):
            if not self.choices or value in self.choices:
                return value
        elif self.kind in (int, float) and isinstance(value, (int, self.kind)) and not isinstance(value, bool):
            number: float = self.kind(value)
            if number == self.also or self._within(number):
                return number
        raise ValueError(self.allowed)

    def _within(self, number: float) -> bool:
        return (self.low < number if self.above_low else self.low <= number) and number <= self.high

    def parse(self, text: str) -> Value:
        """The value that a person typed, in the environment or as an option; ValueError if it is not allowed."""
        if self.kind is str or (self.own and text == OWN):
            return self.check(text)
        if self.kind is bool:
            return self.check({"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower()))
        try:
            return self.check(self.kind(text))
        except ValueError:
            raise ValueError(self.allowed) from None
