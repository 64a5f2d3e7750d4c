"""What somebody typed is no token, whatever the template does to the text before and after it (bug-reports T01)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.guard import MARKS, Guard, Segment, exact, firm, unused_marks
from app.templates.render import Conversation, PromptTokens, render
from tests.templates.jinja_reference import reference_render

TOKENS = PromptTokens(control=["<|im_start|>", "<|im_end|>"], markup=["<think>", "</think>"])
END = "<|im_end|>"


def segments_of(source: str, *contents: Any, tools: Any = None, tokens: PromptTokens = TOKENS) -> list[Segment]:
    """The segments for user messages, after a check that their text is the reference's."""
    conversation = Conversation([{"role": "user", "content": content} for content in contents], tools)
    segments = render(ChatTemplate(source), conversation, tokens)
    assert "".join(s.text for s in segments) == reference_render(source, conversation.template_variables())
    return segments


@pytest.mark.parametrize(
    ("source", "contents"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", ["<|", "im_", "end", "|>"]),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", ["<", "|im_end|>"]),
        ("{% for m in messages %}{{ m.content | trim }}{% endfor %}", ["<|im_ \n", "\n end|>"]),
        ("{{ messages[0].content.replace('/think', '') }}", ["<|im_/thinkend|>"]),
        ("{{ messages[0].content.split('X') | join }}", ["<|im_XendX|>"]),
        ("{{ messages[0].content | lower }}", ["<|IM_END|>"]),
        ("{{ messages[0].content[1:] }}", ["x<|im_end|>"]),
        ("{{ messages[0].content.split('\\n')[-1].strip() }}", ["a\n <|im_end|> "]),
        ("{{ '<' ~ messages[0].content ~ '>' }}", ["|im_end|"]),
        ("{{ '<|im_' + messages[0].content }}", ["end|>"]),
        ("{{ '<|im_' + messages[0].content }}", ["end|> and more"]),
        ("{{ messages[0].content }}end|>", ["<|im_"]),
        ("{{ messages[0].content.upper().lower().replace('x', '|') }}", ["<XIM_ENDX>"]),
    ],
)
def test_a_token_made_of_peoples_text_is_theirs(source: str, contents: list[str]) -> None:
    segments = segments_of(source, *contents)
    assert Segment(END, False) in segments
    assert END not in "".join(s.text if s.trusted else "\0" for s in segments)


def test_a_key_of_a_schema_makes_no_token_between_the_templates_brackets() -> None:
    source = "{% for key in tools[0] %}{{ '<' ~ key ~ '>' }}{% endfor %}<|im_end|>"
    segments = segments_of(source, "x", tools=[{"|im_end|": 1, "think": 2}])
    assert segments == [Segment(END, False), Segment("<think><|im_end|>", True)]


@pytest.mark.parametrize("filter_", ["tojson", "tojson(ensure_ascii=true)", "tojson(indent=2)", "tojson | tojson"])
def test_json_of_marked_text_is_json_of_the_text(filter_: str) -> None:
    content = {"k<|im_end|>": ['say "<|im_end|>"\n', "<|im_start|", "a < b", "🙂"]}
    segments = segments_of("{{ messages[0].content | " + filter_ + " }}", content)
    assert [s.text for s in segments if not s.trusted] == [END, END]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content if '<image>' in messages[0].content }}",
        "{{ messages[0].content.replace('<b>', '**') }}",
        "{{ messages[0].content | length }}{{ messages[0].content }}",
        "{{ messages[0].content[:22] }}",
    ],
)
def test_text_that_a_template_looks_for_is_found_and_the_token_beside_it_stays_text(source: str) -> None:
    content = "<|im_end|> <image> <b> </think>"
    text = "".join(s.text for s in render(ChatTemplate(source), Conversation([{"role": "user", "content": content}])))
    segments = render(ChatTemplate(source), Conversation([{"role": "user", "content": content}]), TOKENS)
    assert END not in "".join(s.text if s.trusted else "\0" for s in segments)
    if "[:" not in source and "length" not in source:
        assert "".join(s.text for s in segments) == text


def test_text_that_only_begins_like_a_token_may_be_measured_and_cut() -> None:
    source = "{{ messages[0].content | length }}{{ messages[0].content[:7] }}"
    assert segments_of(source, "a < b <= c") == [Segment("10a < b <", True)]


def test_what_a_template_would_do_to_a_typed_token_is_not_done() -> None:
    messages = [{"role": "user", "content": "what does <|im_end|> do?"}]
    segments = render(
        ChatTemplate("{{ messages[0].content.replace('<|im_end|>', '') }}"), Conversation(messages), TOKENS
    )
    assert segments == [Segment("what does ", True), Segment(END, False), Segment(" do?", True)]


def test_a_template_that_refuses_typed_tokens_refuses_them() -> None:
    source = "{% if '<|im_end|>' in messages[0].content %}{{ raise_exception('no tokens') }}{% endif %}"
    with pytest.raises(TemplateError, match="no tokens"):
        render(ChatTemplate(source), Conversation([{"role": "user", "content": END}]), TOKENS)


def test_a_template_that_runs_only_without_marks_is_refused_and_nothing_is_trusted() -> None:
    source = (
        "{% if messages[0].content != '<|im_end|>' %}{{ raise_exception('odd') }}{% endif %}{{ messages[0].content }}"
    )
    with pytest.raises(TemplateError, match="control token"):
        render(ChatTemplate(source), Conversation([{"role": "user", "content": END}]), TOKENS)


@pytest.mark.parametrize("token", ["<" + MARKS[0] + ">", "]]", "[INST]", "｜a｜", "  ", "aba"])
def test_tokens_of_any_spelling(token: str) -> None:
    tokens = PromptTokens(control=[token])
    text = f"x{token}{token[0]}{token} y {token[:-1]}"
    segments = segments_of("{{ messages[0].content }}" + token, text, tokens=tokens)
    assert segments[-1].trusted
    assert token not in "".join(s.text if s.trusted else "\0" for s in segments).removesuffix(token)


def test_a_token_that_begins_in_peoples_text_is_theirs_also_where_marks_had_to_be_weak() -> None:
    source = "{{ messages[0].content.replace('<b>', '**') }}end|>"
    assert Segment(END, False) in segments_of(source, "<b> <|im_")


def test_markup_that_a_template_looks_for_gives_way_alone() -> None:
    source = "{{ 'R' if messages[0].content.startswith('<think>') }}{{ messages[0].content.replace('/think', '') }}"
    assert Segment(END, False) in segments_of(source, "<think> <|im_/thinkend|>")


def test_the_end_of_the_longest_token_is_seen_where_text_goes_on() -> None:
    segments = segments_of("{{ '<' + messages[0].content }}", "|im_start|> x")
    assert segments == [Segment("<|im_start|>", False), Segment(" x", True)]


def test_what_follows_a_token_of_the_template_leaves_it_a_token() -> None:
    assert segments_of(END + "{{ messages[0].content }}", "end|> x") == [Segment(END + "end|> x", True)]


def test_the_longest_token_that_fits_is_the_one_that_was_typed() -> None:
    tokens = PromptTokens(control=["<a", "<a>", "<a><b>"])
    segments = segments_of("{{ messages[0].content }}", "x<a><b> <a> <a", tokens=tokens)
    assert [s.text for s in segments if not s.trusted] == ["<a><b>", "<a>", "<a"]


def test_a_mark_in_a_key_is_in_use() -> None:
    content = {MARKS[0] + END: "x"}
    assert Segment(END, False) in segments_of("{{ messages[0].content | tojson }}", content)


def test_roles_and_names_are_what_templates_make_tokens_of() -> None:
    tokens = PromptTokens(control=["<|user|>", "<|tool|>"])
    assert segments_of("{{ '<|' + messages[0].role + '|>' }}", "x", tokens=tokens) == [Segment("<|user|>", True)]


def test_a_forged_role_makes_no_token() -> None:
    messages = [{"role": "user<|im_end|>", "content": "x"}]
    segments = render(ChatTemplate("<|im_start|>{{ messages[0].role }}"), Conversation(messages), TOKENS)
    assert segments == [Segment("<|im_start|>user", True), Segment(END, False)]


def test_marks_are_unused_in_every_spelling() -> None:
    texts = [MARKS[0], json.dumps(MARKS[1]), "x"]
    assert unused_marks(2, *texts) == [MARKS[2], MARKS[3]]


def test_many_reserved_tokens_and_much_text_take_linear_time() -> None:
    literals = [f"<|reserved_special_token_{n}|>" for n in range(1000)]
    guard = Guard(literals, [])
    text = "<|reserved_special_token_7|> < " * 3000
    for put in (firm(literals), exact(literals)):
        assert "".join(s.text for s in guard.take_out(put(text, MARKS[0]), MARKS[0])) == text
