"""A conversation as prompt segments that keep the template's control tokens apart from anybody's text.

`guard.py` has the method. A mark inside a literal changes what a template does only where the template looks for that
very literal in people's text, so the joined segments are the text that a render without marks gives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.guard import Guard, Segment, map_strings, strings_in, unused_mark


@dataclass(frozen=True)
class Conversation:
    """What a template renders. Messages are mappings in the OpenAI shape; `variables` are extra template variables."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)

    def template_variables(self) -> dict[str, Any]:
        """The variables as transformers passes them: tools and documents always there, no None-valued message keys."""
        messages = [{key: value for key, value in message.items() if value is not None} for message in self.messages]
        return {
            **self.variables,
            "messages": messages,
            "tools": self.tools,
            "documents": self.documents,
            "add_generation_prompt": self.add_generation_prompt,
        }


@dataclass(frozen=True)
class PromptTokens:
    """The texts of a vocabulary that are single tokens by declaration.

    `control` steer the model (`<|im_end|>`). `markup` are parts of an ordinary reply (`<think>`, `<tool_call>`): in
    assistant messages they are the model's own and stay what they are.
    """

    control: Collection[str] = ()
    markup: Collection[str] = ()


NO_TOKENS = PromptTokens()


def render(template: ChatTemplate, conversation: Conversation, tokens: PromptTokens = NO_TOKENS) -> list[Segment]:
    """The prompt of `conversation`, split where somebody's text spells a token; raises TemplateError.

    Some templates look for markup in people's text: Qwen3 takes a user message that is one `<tool_response>` for a
    tool's result. Marks would hide it, so where they change the text, marks on markup give way to the template.
    """
    variables = conversation.template_variables()
    marked, guard = _marked(template, variables, tokens)
    if marked == variables:
        return [Segment(template.render(marked), trusted=True)]
    segments = guard.take_out(template.render(marked))
    if tokens.markup and _joined(segments) != _plain_render(template, variables):
        marked, guard = _marked(template, variables, PromptTokens(control=tokens.control))
        segments = guard.take_out(template.render(marked))
    return segments


def starts_in_thinking(prompt: str) -> bool:
    """Whether a reply to this rendered prompt begins inside a think block that the template has opened."""
    return prompt.rstrip().endswith("<think>")


def _marked(template: ChatTemplate, variables: dict[str, Any], tokens: PromptTokens) -> tuple[dict[str, Any], Guard]:
    """A copy of the variables with marks in them, and the guard that takes the marks out again."""
    mark = unused_mark(template.source, *strings_in(variables))
    own = Guard(tokens.control, mark)  # for what the model itself wrote
    everyone = Guard({*tokens.control, *tokens.markup}, mark)
    marked = {
        name: [map_strings(m, own.put if m.get("role") == "assistant" else everyone.put) for m in value]
        if name == "messages"
        else map_strings(value, everyone.put)
        for name, value in variables.items()
    }
    return marked, everyone


def _plain_render(template: ChatTemplate, variables: dict[str, Any]) -> str | None:
    """The text without marks, or None where the template refuses it because of a literal that marks make harmless."""
    try:
        return template.render(map_strings(variables, str))  # a copy, because a template can change what it is given
    except TemplateError:
        return None


def _joined(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments)
