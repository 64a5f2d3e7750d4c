"""minijinja set up as transformers sets up Jinja2, so that a model's own chat template means what its authors tested.

The conventions come from `transformers.utils.chat_template_utils`: `trim_blocks`, `lstrip_blocks`, no autoescape, a
`tojson` that keeps non-ASCII text and does not escape HTML, `raise_exception` and `strftime_now`. A template that does
not parse or does not run is refused with its line; there is no fallback to another template.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import minijinja

from app.errors import TemplateError, printable

TEMPLATE_NAME = "chat"
# Fuel is about one unit an instruction. Real templates take 4-20 thousand for 41 messages and grow with the text.
FUEL_BASE = 2_000_000
FUEL_PER_CHARACTER = 4
NO_TEMPLATE_HINT = "`qchat ask --raw` sends text without a template"


class _Refused(Exception):  # noqa: N818 - not an error of ours: the template's own `raise_exception`
    """The template called `raise_exception(message)`."""


def _raise_exception(message: object) -> NoReturn:
    raise _Refused(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class ChatTemplate:
    """One compiled chat template. Not for use by two threads at once: the fuel of a render belongs to the object.

    `named_tokens` are the variables that stand for the model's own tokens, such as `bos_token` and `eos_token`.
    """

    def __init__(self, source: str, named_tokens: Mapping[str, str] | None = None) -> None:
        """Compile `source`; raises TemplateError with the line of what cannot be parsed."""
        self.source = source
        self._named_tokens = dict(named_tokens or {})
        self._environment = minijinja.Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            pycompat=True,
            debug=False,  # with debug an error's text repeats the variables: people's chats
            auto_escape_callback=lambda name: None,
            filters={"tojson": _tojson},
            globals={"raise_exception": _raise_exception, "strftime_now": time.strftime},
        )
        try:
            self._environment.add_template(TEMPLATE_NAME, source)
        except minijinja.TemplateError as error:
            raise self._refusal(error) from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for `variables`; raises TemplateError when the template refuses them or cannot be run."""
        self._environment.fuel = FUEL_BASE + FUEL_PER_CHARACTER * len(repr(variables))
        try:
            return self._environment.render_template(TEMPLATE_NAME, **{**self._named_tokens, **variables})
        except minijinja.TemplateError as error:
            raise self._refusal(error) from None
        except _Refused as refused:
            raise TemplateError(
                f"the chat template refused this conversation: {printable(str(refused), 200)}"
            ) from None
        except Exception as error:  # whatever a method of a list or a filter raises when a template misuses it
            raise TemplateError(f"the chat template failed: {printable(str(error), 200)}", NO_TEMPLATE_HINT) from error

    def _refusal(self, error: minijinja.TemplateError) -> TemplateError:
        """minijinja's error as ours: kind and detail, the line's number, and the line as the template has it."""
        line = error.line
        what = printable(error.detail or error.message, 120)
        if line is None:
            return TemplateError(f"the chat template cannot be rendered: {what}", NO_TEMPLATE_HINT)
        lines = self.source.split("\n")
        shown = printable(lines[line - 1].strip(), 60) if line <= len(lines) else ""
        return TemplateError(
            f"the chat template cannot be rendered: line {line}: {what} in `{shown}`", NO_TEMPLATE_HINT, line
        )
