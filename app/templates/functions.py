"""The functions that a rewritten template calls. Each takes the template's line first and fails with that line."""

from __future__ import annotations

import html
import operator
import time
from collections.abc import Callable
from typing import Any, NoReturn

from app.templates import operators
from app.templates.expression import COMPARED
from app.templates.filters import FILTERS
from app.templates.limits import Refusal, TemplateFailure
from app.templates.methods import call_method
from app.templates.predicates import TESTS
from app.templates.values import UNDEFINED, as_number, number

_FAILURES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _with_line(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for a template: numbers go in plain and come out as `Number` where minijinja would change them."""

    def called(line: int, *arguments: Any, **keywords: Any) -> Any:
        try:
            if keywords:
                keywords = {key: number(value) for key, value in keywords.items()}
            return as_number(function(*map(number, arguments), **keywords))
        except TemplateFailure as failure:
            raise TemplateFailure(failure.line or line, failure.message) from None
        except _FAILURES as error:
            raise TemplateFailure(line, f"{name}: {error}") from None

    return called


def _on_two(name: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The same for an operator that gives no number, which is most of the work of many templates."""

    def called(line: int, left: Any, right: Any) -> Any:
        try:
            return function(number(left), number(right))
        except _FAILURES as error:
            raise TemplateFailure(line, f"{name}: {error}") from None

    return called


def _length(line: int, value: Any) -> int:
    try:
        return len(value)
    except TypeError as error:
        raise TemplateFailure(line, f"length: {error}") from None


def _method(line: int, receiver: Any, name: str, *arguments: Any, **keywords: Any) -> Any:
    try:
        return as_number(call_method(receiver, name, *map(number, arguments), **keywords))
    except _FAILURES as error:
        raise TemplateFailure(line, f".{name}(): {error}") from None


def _raise_exception(line: int, message: object) -> NoReturn:
    raise Refusal(line, str(message))


def _unknown(line: int, what: str) -> NoReturn:
    raise TemplateFailure(line, f"{what} is unknown")


def _text(line: int, value: Any) -> str:
    """What a filter block may print."""
    if not isinstance(value, str):
        raise TemplateFailure(line, "a filter block must give text")
    return value


def _parsed(text: str) -> Any:
    """A number literal that minijinja would change."""
    return int(text) if text.isdecimal() else float(text)


def _dict(*arguments: Any, **keywords: Any) -> dict[Any, Any]:
    if UNDEFINED in arguments:
        raise TypeError("an undefined value is no mapping")
    return dict(*arguments, **keywords)


def _escape(text: str) -> str:
    """What becomes of `text` where it is added to text that is `safe`."""
    if not isinstance(text, str):
        raise TypeError("only text can be added to safe text")
    return html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


_PLAIN: dict[str, Callable[..., Any]] = {
    **FILTERS,
    **{f"is_{name}": function for name, function in TESTS.items() if name not in ("defined", "undefined")},
    "attribute": operators.attribute,
    "calculate": operators.calculate,
    "compare": operators.compare,
    "concatenate": operators.concatenate,
    "dict": _dict,
    "escape": _escape,
    "item": operators.item,
    "iterate": operators.iterate,
    "negative": operator.neg,
    "number": _parsed,
    "positive": operator.pos,
    "range": operators.numbers_in_range,
    "slice_of": operators.sliced,
    "strftime_now": time.strftime,
    "unpack": operators.unpack,
}
FUNCTIONS: dict[str, Any] = {
    # To be asked for: `if strftime_now is defined`
    "range": operators.numbers_in_range,
    "raise_exception": _raise_exception,
    "strftime_now": time.strftime,
    "__undefined": UNDEFINED,
    "__method": _method,
    "__raise_exception": _raise_exception,
    "__unknown": _unknown,
    "__text": _text,
    **{name: _on_two(symbol, operators.COMPARISONS[symbol]) for symbol, name in COMPARED.items()},
    "__is_defined": lambda line, value: value is not UNDEFINED,
    "__is_undefined": lambda line, value: value is UNDEFINED,
    **{f"__{name}": _with_line(name, function) for name, function in _PLAIN.items()},
    "__length": _length,
}
