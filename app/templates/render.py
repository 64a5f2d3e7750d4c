"""A conversation as prompt segments that keep the template's control tokens apart from anybody's text.

The prompt's text is that of a render without marks, which is what the model was trained on. `guard.py` has the method
by which further renders, with marks, find out who wrote which token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.guard import Guard, Marking, Segment, map_strings, strings_in, unused_marks

_OPEN, _CLOSE = "<think>", "</think>"


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
    """`message` without None, and with its reasoning under both names that templates know it by."""
    kept = {key: value for key, value in message.items() if value is not None}
    for name, other in (("reasoning_content", "thinking"), ("thinking", "reasoning_content")):
        if kept.get("role") == "assistant" and name in kept:
            kept.setdefault(other, kept[name])
    return kept


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

    Some templates look for tags in people's text: Qwen3 takes a user message that is one `<tool_response>` for a tool's
    result. Marks would hide the tag, so where they change the text, weaker ones take their place (`_markings`). The
    weakest stay in any case: what a template would do to a control token that somebody typed is not done.
    """
    variables = conversation.template_variables()
    mark, end = unused_marks(2, template.source, *strings_in(variables))
    if conversation.continue_last:
        variables["messages"] = _open_ended(variables["messages"], end)

    def text_of(variables: Mapping[str, Any]) -> str:
        text = template.render(variables)
        return _until(end, text) if conversation.continue_last else text

    plain = text_of(map_strings(variables, str))  # a copy, because a template can change what it is given
    guard = Guard({*tokens.control, *tokens.markup}, mark)
    segments: list[Segment] = []
    for own, everyone in _markings(guard, tokens):
        marked = _marked(variables, own, everyone)
        if marked == variables:
            return [Segment(plain, trusted=True)]
        try:
            segments = guard.take_out(text_of(marked))
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


def _markings(guard: Guard, tokens: PromptTokens) -> Iterator[tuple[Marking, Marking]]:
    """How to mark the model's own messages and everybody else's text, the strongest first."""
    except_markup = guard.firm(tokens.control, keep=tokens.markup)
    yield except_markup, guard.firm({*tokens.control, *tokens.markup})
    yield except_markup, except_markup
    exact = guard.exact(tokens.control)
    yield exact, exact


def _marked(variables: Mapping[str, Any], own: Marking, everyone: Marking) -> dict[str, Any]:
    """A copy of the variables with marks in them."""
    return {
        name: [map_strings(m, own if m.get("role") == "assistant" else everyone) for m in value]
        if name == "messages"
        else map_strings(value, everyone)
        for name, value in variables.items()
    }


def _open_ended(messages: Sequence[Mapping[str, Any]], end: str) -> list[Mapping[str, Any]]:
    """The messages with `end` and a space after the text that is to be continued; raises TemplateError if none is.

    The space shows whether the template keeps what is at the end of a text, as in transformers.
    """
    last = dict(messages[-1]) if messages else {}
    content = last.get("content")
    if content and isinstance(content, str):
        last["content"] = f"{content}{end} "
    elif not content and isinstance(last.get("reasoning_content"), str):
        last |= dict.fromkeys(("reasoning_content", "thinking"), f"{last['reasoning_content']}{end} ")
        last.setdefault("content", "")
    else:
        raise TemplateError("there is no text in the last message that could be continued")
    return [*messages[:-1], last]


def _until(end: str, text: str) -> str:
    """`text` up to the last `end`; without the white space before it where the template trimmed the space after it."""
    before, found, after = text.rpartition(end)
    if not found:
        raise TemplateError("the chat template leaves out the text that is to be continued")
    return before if after.startswith(" ") else before.rstrip()
