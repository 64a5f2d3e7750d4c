"""Jinja2's filters of lists and dicts. Those that are generators there are here too.

A generator can be used once, has no length and is no JSON, and templates are written against that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from app.templates import predicates
from app.templates.operators import item
from app.templates.values import UNDEFINED, as_number, number


def _getter(
    attribute: int | str | None, default: Any = None, change: Callable[[Any], Any] | None = None
) -> Callable[[Any], Any]:
    """What takes `attribute`, such as "function.name" or "items.0", from a value and changes it then."""
    parts = (
        [int(part) if part.isdigit() else part for part in attribute.split(".")] if isinstance(attribute, str) else []
    )
    keys = [attribute] if isinstance(attribute, int) else parts

    def get(value: Any) -> Any:
        for key in keys:
            value = item(value, key)
            if default is not None and value is UNDEFINED:
                value = default
        return change(number(value)) if change else value

    return get


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _folding(case_sensitive: bool) -> Callable[[Any], Any] | None:
    return None if case_sensitive else _folded


def _batch(values: Any, linecount: int, fill_with: Any = None) -> Iterator[list[Any]]:
    line: list[Any] = []
    for value in values:
        if len(line) == linecount:
            yield line
            line = []
        line.append(value)
    if line:
        yield line + [fill_with] * ((linecount - len(line)) if fill_with is not None else 0)


def _slice(values: Any, slices: int, fill_with: Any = None) -> Iterator[list[Any]]:
    values = list(values)
    length, longer = divmod(len(values), slices)
    start = 0
    for i in range(slices):
        end = start + length + (i < longer)
        padding = [fill_with] if fill_with is not None and i >= longer else []
        yield values[start:end] + padding
        start = end


def _dictsort(value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> list[Any]:
    if by not in ("key", "value"):
        raise ValueError("a dict is sorted by key or value")
    change = _folding(case_sensitive) or (lambda part: part)
    return sorted(value.items(), key=lambda pair: change(pair[by == "value"]), reverse=reverse)


def _first(values: Any) -> Any:
    return next(iter(values), UNDEFINED)


def _last(values: Any) -> Any:
    return next(iter(reversed(values)), UNDEFINED)


def _items(value: Any) -> Iterator[Any]:
    if value is UNDEFINED:
        return
    if not isinstance(value, dict):
        raise TypeError("only a mapping has items")
    yield from value.items()


def _join(values: Any, d: Any = "", attribute: int | str | None = None) -> str:
    get = _getter(attribute)
    return str(d).join(str(get(value)) for value in values)


def _map(values: Any, *arguments: Any, **keywords: Any) -> Iterator[Any]:
    if not values:
        return
    if not arguments and "attribute" in keywords:
        change = _getter(keywords.pop("attribute"), keywords.pop("default", None))
        if keywords:
            raise TypeError("an unexpected keyword argument")
    else:
        name, *rest = arguments

        def change(value: Any) -> Any:
            return as_number(_filter(name)(number(value), *rest, **keywords))

    for value in values:
        yield change(value)


def _filter(name: str) -> Callable[..., Any]:
    from app.templates.filters import FILTERS  # noqa: PLC0415 - which holds `map` itself

    if name not in FILTERS:
        raise LookupError(f"the filter {name} is unknown")
    return FILTERS[name]


def _extreme(choose: Callable[..., Any], values: Any, case_sensitive: bool, attribute: int | str | None) -> Any:
    return choose(values, key=_getter(attribute, change=_folding(case_sensitive)), default=UNDEFINED)


def _min(values: Any, case_sensitive: bool = False, attribute: int | str | None = None) -> Any:
    return _extreme(min, values, case_sensitive, attribute)


def _max(values: Any, case_sensitive: bool = False, attribute: int | str | None = None) -> Any:
    return _extreme(max, values, case_sensitive, attribute)


def _reverse(values: Any) -> Any:
    if isinstance(values, str):
        return values[::-1]
    return reversed(values) if hasattr(values, "__reversed__") or hasattr(values, "__len__") else list(values)[::-1]


def _chosen(wanted: bool, of_attribute: bool, values: Any, arguments: tuple[Any, ...]) -> Iterator[Any]:
    """The values for which a test, or plain truth, is `wanted`."""
    if not values:
        return
    get = _getter(arguments[0]) if of_attribute else lambda value: value
    name, *rest = arguments[of_attribute:] or (None,)
    for value in values:
        subject = get(value)
        if bool(subject if name is None else predicates.test(name, subject, *rest)) == wanted:
            yield value


def _select(values: Any, *arguments: Any) -> Iterator[Any]:
    return _chosen(True, False, values, arguments)


def _reject(values: Any, *arguments: Any) -> Iterator[Any]:
    return _chosen(False, False, values, arguments)


def _selectattr(values: Any, *arguments: Any) -> Iterator[Any]:
    return _chosen(True, True, values, arguments)


def _rejectattr(values: Any, *arguments: Any) -> Iterator[Any]:
    return _chosen(False, True, values, arguments)


def _sort(
    values: Any, reverse: bool = False, case_sensitive: bool = False, attribute: int | str | None = None
) -> list[Any]:
    """Sorted by one attribute, or by several with commas between."""
    names = attribute.split(",") if isinstance(attribute, str) else [attribute]
    getters = [_getter(name, change=_folding(case_sensitive)) for name in names]
    return sorted(values, key=lambda value: [get(value) for get in getters], reverse=reverse)


def _sum(values: Any, attribute: int | str | None = None, start: Any = 0) -> Any:
    get = _getter(attribute)
    return number(sum((get(value) for value in values), start))


def _unique(values: Any, case_sensitive: bool = False, attribute: int | str | None = None) -> Iterator[Any]:
    get = _getter(attribute, change=_folding(case_sensitive))
    seen = set()
    for value in values:
        key = get(value)
        if key not in seen:
            seen.add(key)
            yield value


SEQUENCE_FILTERS: dict[str, Callable[..., Any]] = {
    "batch": _batch,
    "count": len,
    "dictsort": _dictsort,
    "first": _first,
    "items": _items,
    "join": _join,
    "last": _last,
    "length": len,
    "list": list,
    "map": _map,
    "max": _max,
    "min": _min,
    "reject": _reject,
    "rejectattr": _rejectattr,
    "reverse": _reverse,
    "select": _select,
    "selectattr": _selectattr,
    "slice": _slice,
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}
