"""A conversation as prompt segments that keep the template's control tokens apart from anybody's text.

The prompt's text is that of a render without marks, which is what the model was trained on. `guard.py` has the method
by which further renders, with marks, find out who wrote which token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.guard import Guard, Marking, Segment, map_strings, strings_in, unused_marks

_OPEN = "<think>"
_REASONING = ("reasoning_content", "thinking", "reasoning")


@dataclass(frozen=True)
class Conversation:
    """What a template renders. Messages are mappings in the OpenAI shape; `variables` are extra template variables.

    `continue_last` leaves the last message open, so that the model goes on with it (transformers'
    `continue_final_message`); there is no generation prompt then. A message that got no further than its reasoning goes
    on with that.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)
    continue_last: bool = False

    def template_variables(self) -> dict[str, Any]:
        """The variables as transformers passes them: tools and documents always there, no None-valued message keys."""
        return {
            **self.variables,
            "messages": [_template_message(message) for message in self.messages],
            "tools": self.tools,
            "documents": self.documents,
            "add_generation_prompt": self.add_generation_prompt and not self.continue_last,
        }


def _template_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """`message` without None, and with its reasoning under the names that templates know it by, as in transformers."""
    kept = {key: value for key, value in message.items() if value is not None}
    reasoning = next((kept[name] for name in _REASONING if name in kept), None)
    return kept if reasoning is None else {"thinking": reasoning, **kept, "reasoning_content": reasoning}


@dataclass(frozen=True)
class PromptTokens:
    """The texts of a vocabulary that are single tokens by declaration.

    `control` steer the model (`<|im_end|>`). `markup` are parts of an ordinary reply (`<think>`, `<tool_call>`): in
    assistant messages they are the model's own and stay what they are.
    """

    control: Collection[str] = ()
    markup: Collection[str] = ()

    @cached_property
    def guard(self) -> Guard:
        """What finds these tokens in people's text."""
        return Guard(self.control, self.markup)


NO_TOKENS = PromptTokens()


def render(template: ChatTemplate, conversation: Conversation, tokens: PromptTokens = NO_TOKENS) -> list[Segment]:
    """The prompt of `conversation`, split where somebody's text spells a token; raises TemplateError.

    Some templates look for tags in people's text: Qwen3 takes a user message that is one `<tool_response>` for a tool's
    result. Marks would hide the tag, so where they change the text, weaker ones take their place (`_markings`). The
    weakest stay in any case: what a template would do to a control token that somebody typed is not done.
    """
    variables = conversation.template_variables()
    mark, end = unused_marks(2, template.source, *strings_in(variables))
    continued = ""
    if conversation.continue_last:
        variables["messages"], continued = _open_ended(variables["messages"], end)

    def text_of(variables: Mapping[str, Any]) -> str:
        text = template.render(variables)
        return _until(end, text) if conversation.continue_last else text

    plain = text_of(variables)
    if continued.strip() not in plain:
        raise TemplateError("the chat template changes the text that is to be continued")
    segments: list[Segment] = []
    for own, everyone in tokens.guard.markings():
        marked = _marked(variables, mark, own, everyone)
        if marked == variables:
            return [Segment(plain, trusted=True)]
        try:
            segments = tokens.guard.take_out(text_of(marked), mark)
        except TemplateError:  # not what it says without marks
            continue
        if "".join(segment.text for segment in segments) == plain:
            return segments
    if not segments:
        raise TemplateError("the chat template does not accept a control token in somebody's text, even as text")
    return segments


def starts_in_thinking(prompt: str) -> bool:
    """Whether a reply to this rendered prompt begins inside a think block that the template has opened."""
    return prompt.rstrip().endswith(_OPEN)


def continues_thinking(conversation: Conversation) -> bool:
    """Whether the reply goes on with the reasoning of the last message, rather than with its content."""
    last = conversation.template_variables()["messages"][-1] if conversation.continue_last else {}
    return bool(last.get("reasoning_content")) and not last.get("content")


def _marked(variables: Mapping[str, Any], mark: str, own: Marking, everyone: Marking) -> dict[str, Any]:
    """A copy of the variables with marks in them."""

    def by_model(text: str) -> str:
        return own(text, mark)

    def by_anybody(text: str) -> str:
        return everyone(text, mark)

    return {
        name: [map_strings(m, by_model if m.get("role") == "assistant" else by_anybody) for m in value]
        if name == "messages"
        else map_strings(value, by_anybody)
        for name, value in variables.items()
    }


def _open_ended(messages: Sequence[Mapping[str, Any]], end: str) -> tuple[list[Mapping[str, Any]], str]:
    """The messages with `end` and a space after the text that is to be continued, and that text.

    The space shows whether the template keeps what is at the end of a text, as in transformers. TemplateError if there
    is no such text.
    """
    last = dict(messages[-1]) if messages else {}
    content, reasoning = last.get("content"), last.get("reasoning_content")
    if content and isinstance(content, str):
        last["content"] = f"{content}{end} "
        return [*messages[:-1], last], content
    if not content and isinstance(reasoning, str):
        copies = [name for name in _REASONING if last.get(name) == reasoning]
        last |= {"content": "", **dict.fromkeys(copies, f"{reasoning}{end} ")}
        return [*messages[:-1], last], reasoning
    raise TemplateError("there is no text in the last message that could be continued")


def _until(end: str, text: str) -> str:
    """`text` up to the last `end`; without the white space before it where the template trimmed the space after it."""
    before, found, after = text.rpartition(end)
    if not found:
        raise TemplateError("the chat template leaves out the text that is to be continued")
    before = before.replace(f"{end} ", "").replace(end, "")  # where the template writes the same text twice
    return before if after.startswith(" ") else before.rstrip()
