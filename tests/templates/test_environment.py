"""A template means what Jinja2 makes of it, and one that cannot be rendered is refused with its line."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from app.engine.gguf import read_gguf
from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from tests.templates.jinja_reference import reference_render
from tests.templates.templates import CHATML, THINKER

USER = {"role": "user", "content": "hi <b> & \"quotes\" 'é' 🙂"}
SYSTEM = {"role": "system", "content": "Be brief."}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"}
REASONED = {"role": "assistant", "content": "Hello", "reasoning_content": "hm\n"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 1.5, "c": None, "d": "é<"}}},
        {"type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
    ],
}
RESULT = {"role": "tool", "content": "42"}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "a < b & c", "parameters": {"max": 1.0}}}]
CONVERSATIONS = [
    [USER],
    [SYSTEM, USER],
    [SYSTEM, USER, THOUGHT, USER, REASONED, USER],
    [USER, THOUGHT],
    [USER, CALL, RESULT],
    [SYSTEM, USER, CALL, RESULT, REASONED, USER],
]


def every_variables() -> list[dict[str, Any]]:
    switches: list[dict[str, Any]] = [{}, {"enable_thinking": True}, {"enable_thinking": False}]
    return [
        {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": add, **switch}
        for messages, tools, add, switch in itertools.product(CONVERSATIONS, (None, [], TOOLS), (True, False), switches)
    ]


@pytest.mark.parametrize("source", [CHATML, THINKER], ids=["chatml", "thinker"])
def test_equals_jinja2_for_every_kind_of_conversation(source: str) -> None:
    template = ChatTemplate(source)
    for variables in every_variables():
        assert template.render(variables) == reference_render(source, variables)


@pytest.mark.parametrize("model", ["smollm2_path", "tiny_qwen3_path"])
def test_models_own_template_equals_jinja2(model: str, request: pytest.FixtureRequest) -> None:
    with read_gguf(request.getfixturevalue(model)) as gguf:
        source = gguf.metadata["tokenizer.chat_template"]
    template = ChatTemplate(source)
    for variables in every_variables():
        assert template.render(variables) == reference_render(source, variables)


def test_blocks_filters_and_named_tokens_follow_transformers() -> None:
    template = ChatTemplate(
        "{{ bos_token }}\n  {% if true %}\nx{{ '<é>' | tojson }}{{ {'b': [1.5, none], 'a': 'é'} | tojson(indent=1) }}\n"
        "  {% endif %}\n{{ '<b>' }}{{ ' a '.strip() }}{{ 'ab'.startswith('a') }}{{ 'a,b'.split(',')[-1] }}",
        {"bos_token": "<s>"},
    )
    expected = '<s>\nx"<é>"{\n "b": [\n  1.5,\n  null\n ],\n "a": "é"\n}\n<b>aTrueb'
    assert template.render({}) == expected
    assert reference_render(template.source, {"bos_token": "<s>"}) == expected


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\n{% if %}b", 2, "{% if %}b"),
        ("a\n\n{{ messages | nosuch }}", 3, "nosuch"),
        ("{{ 'a'.foo() }}", 1, "foo"),
        ("\n{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", 2, "fuel"),
        ("a\n{{ '\x1b[2J'.foo() }}", 2, "\\x1b[2J"),
        ("\n{{ [nosuch] | map('tojson') | join }}", 2, "tojson"),
        ("\n\n{% filter trim | int(base=1) %}\n\n{% endfilter %}", 3, "int"),
        ("\n{{ strftime_now(1) }}", 2, "strftime_now"),
        ("\n{{ 1 if\n\n'a' > 1 }}", 4, "not supported"),
        ("{{ 'a\nb' }}\n{{ messages.x.y }}", 3, "messages.x.y"),
        ("\n{% set x %}\n{% for a in [] %}{% endset %}", 3, "endset"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_refused_with_construct_and_line(
    source: str, line: int, words: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(source).render({"messages": []})
    assert caught.value.line == line
    assert f"line {line}" in caught.value.message
    assert words in caught.value.message
    assert caught.value.message.isprintable()


def test_the_templates_own_refusal_is_its_message() -> None:
    template = ChatTemplate("{{ raise_exception('roles must\x1b alternate') }}")
    with pytest.raises(TemplateError, match=r"roles must\\x1b alternate"):
        template.render({})


def test_an_error_does_not_repeat_the_chat() -> None:
    with pytest.raises(TemplateError) as caught:
        ChatTemplate("{{ messages[0].content.foo() }}").render({"messages": [{"content": "my secret"}]})
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ 1 | tojson(nosuch=1) }}", "nosuch"),
        ("{{ tools.nosuch() }}", "nosuch"),
        ("{{ tools.index(5) }}", "no such item"),
        ("{{ tools.pop() }}", "may not change"),
    ],
)
def test_a_method_or_filter_that_fails_is_a_template_error(source: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        ChatTemplate(source).render({"tools": []})
