"""A reply that goes on: what transformers makes of it with `continue_final_message`.

The expected texts are what `render_jinja_template` of transformers 5.24 gave for the same messages. Two things are
refused here that it takes: an empty reply without reasoning, for which there is nothing to go on with, and content in
parts.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.guard import Segment
from app.templates.render import Conversation, continues_thinking, render
from tests.templates.test_official_qwen import QWEN3, QWEN25, THINKING_ONLY, TOKENS, source_of

LLAMA3 = "meta-llama-Llama-3.2-3B-Instruct"
DISTILL = "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"
HERMES3 = "NousResearch-Hermes-3-Llama-3.1-8B"
SMOLLM2 = "HuggingFaceTB-SmolLM2-135M-Instruct"
PHI4 = "microsoft-Phi-4-mini-reasoning"
USER = {"role": "user", "content": "What is 12 + 7?"}
CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}


def reply(content: Any, reasoning: str | None = None, name: str = "reasoning_content", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({name: reasoning} if reasoning is not None else {}), **more}


def continued(name: str, last: dict[str, Any], **variables: Any) -> str:
    """The prompt's text after the question."""
    template = ChatTemplate(source_of(name), {"bos_token": "<s>", "eos_token": "</s>"})
    segments = render(template, Conversation([USER, last], variables=variables, continue_last=True), TOKENS)
    return "".join(segment.text for segment in segments).partition("What is 12 + 7?")[2]


CHATML = "<|im_end|>\n<|im_start|>assistant\n"
LLAMA = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
PHI, SEEK = "<|end|><|assistant|>", "<｜Assistant｜>"
NO_THOUGHT, THOUGHT = "<think>\n\n</think>\n\n", "<think>\nhm\n</think>\n\n"


@pytest.mark.parametrize(
    ("name", "last", "expected"),
    [
        (QWEN3, reply("Nineteen is \n"), CHATML + NO_THOUGHT + "Nineteen is \n"),
        (QWEN3, reply(" a"), CHATML + NO_THOUGHT + " a"),
        (QWEN3, reply("Nine", "hm\n"), CHATML + THOUGHT + "Nine"),
        (QWEN3, reply("Nine", "hm\n", "reasoning"), CHATML + THOUGHT + "Nine"),
        (QWEN3, reply("Nine", "hm\n", "thinking"), CHATML + THOUGHT + "Nine"),
        (QWEN3, reply("<think>\nhm\n</think>\n\nNine "), CHATML + THOUGHT + "Nine "),
        (QWEN3, reply("<think>\nso far"), CHATML + NO_THOUGHT + "<think>\nso far"),
        (QWEN3, reply("", "twelve and "), CHATML + "<think>\ntwelve and "),
        (QWEN3, reply(None, "twelve and ", "reasoning"), CHATML + "<think>\ntwelve and "),
        (QWEN3, reply("", "\ntwelve\n\n"), CHATML + "<think>\ntwelve\n\n"),
        (QWEN3, reply("Looking ", tool_calls=[CALL]), CHATML + NO_THOUGHT + "Looking "),
        (THINKING_ONLY, reply("", "twelve and "), CHATML + "<think>\ntwelve and "),
        (QWEN25, reply("Nineteen is \n"), CHATML + "Nineteen is \n"),
        (QWEN25, reply("Nine", "hm\n"), CHATML + "Nine"),
        (QWEN25, reply("Looking ", tool_calls=[CALL]), CHATML + "Looking "),
        (HERMES3, reply("12 + 7 <"), CHATML + "12 + 7 <"),
        (SMOLLM2, reply("a\n\n\n"), CHATML + "a\n\n\n"),
        (LLAMA3, reply("Nineteen is \n"), LLAMA + "Nineteen is"),
        (LLAMA3, reply(" a"), LLAMA + "a"),
        (PHI4, reply("<think>\nso far"), PHI + "<think>\nso far"),
        (DISTILL, reply("Nineteen is \n"), SEEK + "Nineteen is \n"),
        (DISTILL, reply("<think>\nso far"), SEEK + "<think>\nso far"),
        (QWEN3, {"role": "user", "content": "And "}, "<|im_end|>\n<|im_start|>user\nAnd "),
    ],
)
def test_the_prompt_ends_where_the_reply_was_left(name: str, last: dict[str, Any], expected: str) -> None:
    assert continued(name, last) == expected


@pytest.mark.parametrize("switch", [True, False])
def test_the_thinking_switch_changes_nothing_about_what_was_said(switch: bool) -> None:
    assert continued(QWEN3, reply("Nine"), enable_thinking=switch) == CHATML + NO_THOUGHT + "Nine"
    assert continued(QWEN3, reply("", "twelve"), enable_thinking=switch) == CHATML + "<think>\ntwelve"


@pytest.mark.parametrize(
    ("name", "last", "why"),
    [
        (QWEN3, reply("</think>\nx"), "changes the text"),
        (DISTILL, reply("<think>\nhm\n</think>\n\nNine "), "changes the text"),
        (DISTILL, reply("", "twelve and "), "leaves out the text"),
        (QWEN25, reply("", "twelve and "), "leaves out the text"),
        (LLAMA3, reply("Looking ", tool_calls=[CALL]), "leaves out the text"),
        (QWEN3, reply(""), "no text in the last message"),
        (QWEN3, reply([{"type": "text", "text": "Nin"}]), "no text in the last message"),
    ],
)
def test_what_cannot_go_on_is_refused(name: str, last: dict[str, Any], why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        continued(name, last)


def test_there_is_no_generation_prompt_and_no_message_to_go_on_with() -> None:
    source = "{{ 'GO' if add_generation_prompt }}{{ messages[0].content }}"
    asked = Conversation([reply("x")], add_generation_prompt=True, continue_last=True)
    assert render(ChatTemplate(source), asked) == [Segment("x", True)]
    with pytest.raises(TemplateError, match="no text"):
        render(ChatTemplate(source), Conversation([], continue_last=True))


def test_text_that_the_template_writes_twice_goes_on_at_the_last_place() -> None:
    source = "{{ messages[0].content }} | {{ messages[0].content }}!"
    assert render(ChatTemplate(source), Conversation([reply("x")], continue_last=True)) == [Segment("x | x", True)]


def test_whether_it_goes_on_thinking() -> None:
    def thinks(last: dict[str, Any], continue_last: bool = True) -> bool:
        return continues_thinking(Conversation([USER, last], continue_last=continue_last))

    assert thinks(reply("", "twelve")) and thinks(reply(None, "twelve", "thinking"))
    assert not thinks(reply("Nine", "twelve")) and not thinks(reply("", "")) and not thinks(reply("", "t"), False)
