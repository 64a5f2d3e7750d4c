"""The settings that a chat may have of its own, and how a person names and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import UsageError, nearest, printable
from app.settings import OWN, RULES

SAMPLING = tuple(key for key in RULES if key.startswith("sampling."))
CHAT_SETTINGS = ("system", "thinking", "max_tokens", *SAMPLING)


def short_name(key: str) -> str:
    """The name that a person uses: "top_k" for "sampling.top_k"."""
    return key.removeprefix("sampling.")


def allowed(key: str) -> str:
    """The values that a setting may have, in a few words."""
    rule = RULES[key]
    if rule.choices:
        return " or ".join(rule.choices)
    if rule.kind is str:
        return "text"
    many = rule.high >= 1_000_000
    words = f"{rule.low:g} or more" if many else f"{rule.low:g} to {rule.high:g}"
    if rule.above_low:
        words = f"above {words}"
    return words if rule.also is None else f"{words}, or {rule.also}"


def read_change(name: str, text: str) -> Mapping[str, Any]:
    """The change of settings that `name` and `text` ask for; an empty text gives the setting back to the defaults.

    Raises UsageError for a name that is no setting of a chat, or a value that is not allowed.
    """
    keys = {short_name(key): key for key in CHAT_SETTINGS} | {key: key for key in CHAT_SETTINGS}
    key = keys.get(name.strip().lower().replace("-", "_"))
    if key is None:
        near = nearest(name, list(keys))
        names = ", ".join(short_name(key) for key in CHAT_SETTINGS)
        hint = f"did you mean {near}?" if near else f"a chat has: {names}"
        raise UsageError(f"no setting of a chat is called {printable(name)}", hint)
    if not text.strip() and key != "system":
        return {key: None}
    try:
        value = RULES[key].parse(text)
    except ValueError as error:
        raise UsageError(f"{short_name(key)} cannot be {printable(text)}", f"allowed: {error}") from None
    return {key: OWN if value is None else value}
