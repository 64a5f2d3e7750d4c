"""minijinja set up so that a chat template gives the text that Jinja2 gives as transformers sets it up.

The conventions come from `transformers.utils.chat_template_utils`: `trim_blocks`, `lstrip_blocks`, no autoescape, its
`tojson`, `raise_exception` and `strftime_now`. Where minijinja differs from Jinja2 on Python, `rewriter.py` has the
template call the functions of `functions.py`. A template that does not parse or does not
run is refused with its line; there is no fallback to another template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import minijinja

from app.errors import TemplateError, printable
from app.templates.functions import FUNCTIONS
from app.templates.guard import strings_in
from app.templates.limits import MAX_OUTPUT, Refusal, TemplateFailure
from app.templates.rewriter import rewrite
from app.templates.values import UNDEFINED, wrapped

TEMPLATE_NAME = "chat"
# Fuel is about one unit an instruction. Real templates take 4-20 thousand for 41 messages and grow with the text.
FUEL_BASE = 2_000_000
FUEL_PER_CHARACTER = 4
NO_TEMPLATE_HINT = "`qchat ask --raw` sends text without a template"


class ChatTemplate:
    """One compiled chat template. Not for use by two threads at once: fuel and output size belong to the object.

    `named_tokens` are the variables that stand for the model's own tokens, such as `bos_token` and `eos_token`.
    """

    def __init__(self, source: str, named_tokens: Mapping[str, str] | None = None) -> None:
        """Compile `source`; raises TemplateError with the line of what cannot be parsed."""
        self.source = source
        self._named_tokens = dict(named_tokens or {})
        self._printed = 0  # characters of values in the current render, about
        self._environment = _environment(self._finalize)
        try:
            self._environment.add_template(TEMPLATE_NAME, rewrite(source))
        except minijinja.TemplateError as error:
            raise self._refusal(error.line, error.detail or error.message) from None
        except TemplateFailure as failure:
            raise self._refusal(failure.line, failure.message) from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for `variables`; raises TemplateError when the template refuses them or cannot be run."""
        self._printed = 0
        self._environment.fuel = FUEL_BASE + FUEL_PER_CHARACTER * sum(map(len, strings_in(variables)))
        own = {**_OWN_VARIABLES, **self._named_tokens}
        values = {name: wrapped(value) for name, value in {**own, **variables}.items()}
        try:
            return self._environment.render_template(TEMPLATE_NAME, **values)
        except minijinja.TemplateError as error:
            raise self._refusal(error.line, error.detail or error.message) from None
        except Refusal as refusal:
            message = f"the chat template refused this conversation: {printable(refusal.message, 200)}"
            raise TemplateError(message, line=refusal.line) from refusal
        except TemplateFailure as failure:
            raise self._refusal(failure.line, failure.message) from None
        except Exception as error:  # what a function raises that was called without a line, such as `strftime_now`
            raise self._refusal(None, str(error)) from error

    def _finalize(self, value: Any) -> Any:
        """What `{{ value }}` prints: lists and dicts as Python writes them, the rest as minijinja does."""
        text = str(value) if isinstance(value, (list, dict, tuple)) else None
        self._printed += len(text) if text is not None else len(value) if isinstance(value, str) else 1
        if self._printed > MAX_OUTPUT:
            raise TemplateFailure(None, f"a prompt of more than {MAX_OUTPUT:,} characters")
        return NotImplemented if text is None else text

    def _refusal(self, line: int | None, what: str) -> TemplateError:
        """The construct that failed, its line, and that line as the template has it; never any text of the chat."""
        what = printable(what, 120)
        if line is None:
            return TemplateError(f"the chat template cannot be rendered: {what}", NO_TEMPLATE_HINT)
        lines = self.source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        shown = printable(lines[line - 1].strip(), 60) if line <= len(lines) else ""
        return TemplateError(
            f"the chat template cannot be rendered: line {line}: {what} in `{shown}`", NO_TEMPLATE_HINT, line
        )


def _environment(finalize: Callable[[Any], Any]) -> minijinja.Environment:
    return minijinja.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # the rewriter has removed the one that Jinja2 removes
        pycompat=True,
        debug=False,  # with debug an error's text repeats the variables: people's chats
        auto_escape_callback=lambda name: None,
        finalizer=finalize,
        globals=FUNCTIONS,
    )


class _Dict:
    """Python's `dict`. Jinja2 takes an attribute that it lacks for an item, and `dict['from_keys']` is dict again."""

    fromkeys = staticmethod(dict.fromkeys)
    from_keys: Any = staticmethod(dict)

    def __call__(self, *arguments: Any, **keywords: Any) -> dict[Any, Any]:
        return dict(*arguments, **keywords)


# minijinja reaches no attributes of a global, and takes a method of the dict of all variables for a variable
_OWN_VARIABLES = {"dict": _Dict(), **{name: UNDEFINED for name in dir(dict) if not name.startswith("_")}}
