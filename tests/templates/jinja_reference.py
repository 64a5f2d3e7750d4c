"""Jinja2 set up as transformers sets it up (`chat_template_utils`): what templates must equal."""

from __future__ import annotations

import functools
import json
import time
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def reference_render(source: str, variables: dict[str, Any]) -> str:
    """The text that transformers would give for the template `source`."""
    return _compiled(source).render(**variables)


@functools.cache
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    def tojson(value: Any, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})

    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=time.strftime)
    return environment.from_string(source)
