"""Jinja2 set up as transformers sets it up (`chat_template_utils`): what templates must equal."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.limits import Refusal


class Raised(jinja2.TemplateError):
    """The template called `raise_exception`."""


class Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: transformers prints the body, as a call block of its own."""

    tags: ClassVar[set[str]] = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def reference_render(source: str, variables: dict[str, Any]) -> str:
    """The text that transformers would give for the template `source`."""
    return _compiled(source).render(**variables)


@functools.lru_cache(maxsize=4)  # one template is compared at a time; a corpus need not stay in memory
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )

    def raise_exception(message: str) -> NoReturn:
        raise Raised(message)

    def tojson(value: Any, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})

    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=time.strftime)
    return environment.from_string(source)


@dataclass(frozen=True)
class Outcome:
    """What a render came to: its text, or `raise_exception`'s whole message, or (neither) some other failure."""

    text: str | None = None
    raised: str | None = None


FAILURE = Outcome()


def reference_outcome(source: str, variables: dict[str, Any]) -> Outcome:
    """What the reference makes of it. Its other errors are of many classes, so any counts as one."""
    try:
        return Outcome(reference_render(source, variables))
    except Raised as error:
        return Outcome(raised=str(error))
    except Exception:
        return FAILURE


def outcome(template: ChatTemplate, variables: dict[str, Any]) -> Outcome:
    """What our template makes of it; anything but a TemplateError escapes, for it would be a bug."""
    try:
        return Outcome(template.render(variables))
    except TemplateError as error:
        refusal = error.__cause__  # the message in full; a person gets it escaped and cut
        return Outcome(raised=refusal.message) if isinstance(refusal, Refusal) else FAILURE
