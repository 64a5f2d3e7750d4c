"""Code for minijinja with what is certain of its value, which decides whether minijinja may calculate with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UNDEFINED = "__undefined"
Kind = Literal["string", "markup", "mixed", "integer", "boolean", "none", "macros", "value", "unknown"]
_RESULTS: dict[Kind, frozenset[str]] = {  # of filters and methods, whatever they are applied to
    "string": frozenset(
        [
            *(
                "capitalize",
                "casefold",
                "center",
                "format",
                "indent",
                "join",
                "ljust",
                "lower",
                "lstrip",
                "removeprefix",
            ),
            *("removesuffix", "replace", "rjust", "rstrip", "string", "strip", "swapcase", "title", "tojson", "trim"),
            *("truncate", "upper", "zfill"),
        ]
    ),
    "integer": frozenset(["count", "find", "index", "length", "rfind", "rindex", "wordcount"]),
    "boolean": frozenset(["endswith", "startswith"]),
}
_MARKUP_STAYS = frozenset(
    ["capitalize", "center", "indent", "lower", "lstrip", "rstrip", "string", "strip", "swapcase", "trim", "upper"]
)


@dataclass(frozen=True)
class Code:
    """Code for minijinja, and what is certain of its value.

    A "value" is anything but minijinja's own undefined, and "unknown" anything. "markup" is text after the filter
    `safe`, "mixed" what may be that, and "macros" a list with a macro in it, which Python cannot hold. `whole` code
    needs no brackets where it is an operand. `name` is what it consists of, if that is one name, and `literal` the
    value of a string literal. `choice` is what `mixed` code chooses from: one code, the condition, and the other.
    """

    text: str
    kind: Kind = "unknown"
    whole: bool = True
    name: str = ""
    literal: str | None = None
    choice: tuple[Code, str, Code] | None = None

    def operand(self) -> str:
        """The text, in brackets where they are needed."""
        return self.text if self.whole else f"({self.text})"

    def argument(self) -> str:
        """The text as an argument of a function in Python, which must tell undefined from None."""
        return f"{self.operand()}|default({UNDEFINED})" if self.kind == "unknown" else self.text


def common_kind(first: Code, *others: Code) -> Kind:
    """What is certain of a value that is one of several."""
    kinds = {code.kind for code in (first, *others)}
    if len(kinds) > 1 and not kinds.isdisjoint(("markup", "mixed")):
        return "mixed"
    return first.kind if len(kinds) == 1 else "unknown" if "unknown" in kinds else "value"


def kind_of_result(name: str, value: Code) -> Kind:
    """What is certain of the result of a filter or method of that name, applied to `value`."""
    if name == "safe" or (value.kind == "markup" and name in _MARKUP_STAYS):
        return "markup"
    return next((kind for kind, names in _RESULTS.items() if name in names), "value")


def compares_as_python(operator: str, left: Code, right: Code) -> bool:
    """Whether minijinja compares as Python does. Its `in` takes methods for items, and numbers for empty."""
    if operator in ("in", "not in"):
        return left.kind == right.kind == "string"
    if left.kind == right.kind == "integer":
        return True
    if operator not in ("==", "!="):
        return False
    return left.kind == right.kind == "boolean" or not {left.kind, right.kind}.isdisjoint(("string", "none"))
