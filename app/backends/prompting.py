"""From a conversation to token ids, with the template and the vocabulary that one model file carries.

`qchat prompt` and the local backend share this, so what the one shows is what the other sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.engine.tokenizer import Tokenizer
from app.errors import TemplateError
from app.templates.environment import NO_TEMPLATE_HINT
from app.templates.guard import Segment
from app.templates.isolation import IsolatedTemplate, Renderer
from app.templates.render import Conversation, PromptTokens

_NAMED_TOKENS = ("bos", "eos", "unknown", "padding")  # tokenizer.ggml.*_token_id
_VARIABLE_OF = {"unknown": "unk_token", "padding": "pad_token"}  # where transformers has another name
_USER_DEFINED = 4  # token type of added tokens that do not steer the model, such as <think>


@dataclass(frozen=True)
class Prompt:
    """A prompt as text and as ids. The ids may begin with a begin token that is not in the text."""

    text: str
    ids: list[int]


class Prompter:
    """Makes prompts for one model, from the metadata of its file and its tokenizer."""

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Tokenizer, renderer: Renderer | None = None) -> None:
        """`renderer` may be one that was started while the model was loaded."""
        self._metadata = metadata
        self._tokenizer = tokenizer
        self._renderer = renderer or Renderer()

    @cached_property
    def template(self) -> IsolatedTemplate:
        """The model's own chat template; TemplateError if it has none."""
        source = self._metadata.get("tokenizer.chat_template")
        if not isinstance(source, str) or not source:
            raise TemplateError("this model file has no chat template", NO_TEMPLATE_HINT)
        named = {}
        for name in _NAMED_TOKENS:
            token_id = self._metadata.get(f"tokenizer.ggml.{name}_token_id")
            if token_id is not None and 0 <= int(token_id) < self._tokenizer.vocab_size:
                named[_VARIABLE_OF.get(name, f"{name}_token")] = self._tokenizer.token_text(int(token_id))
        return IsolatedTemplate(source, named, self._prompt_tokens, self._renderer)

    @cached_property
    def _prompt_tokens(self) -> PromptTokens:
        types: Sequence[int] = self._metadata.get("tokenizer.ggml.token_type", ())
        tokens = self._tokenizer.control_tokens
        markup = {text for text, i in tokens.items() if i < len(types) and int(types[i]) == _USER_DEFINED}
        return PromptTokens(control=tokens.keys() - markup, markup=markup)

    def chat(self, conversation: Conversation) -> Prompt:
        """The prompt of a conversation; raises TemplateError."""
        return self._prompt(self.template.render(conversation))

    def close(self) -> None:
        """End the process that renders."""
        self._renderer.close()

    def raw(self, text: str) -> Prompt:
        """`text` as it is, without a template. It is somebody's text, so nothing in it becomes a control token."""
        return self._prompt([Segment(text, trusted=False)])

    def _prompt(self, segments: Sequence[Segment]) -> Prompt:
        text = "".join(segment.text for segment in segments)
        return Prompt(text, self._tokenizer.encode_prompt(segments))
