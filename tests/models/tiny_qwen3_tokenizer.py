"""The tiny Qwen3's own byte-level BPE, with Qwen's splitting rule and control tokens, and its chats as token ids."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.models.tiny_qwen3_chats import Chat, make_chat
from tests.models.tiny_qwen3_words import WORDS

# The splitting rule that `tokenizer.ggml.pre = qwen2` names.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
CHAT_TEMPLATE = (Path(__file__).parent / "tiny_qwen3_template.jinja").read_text()


def train_tokenizer(vocab_size: int, n_chats: int = 20_000) -> Tokenizer:
    """A BPE of at most `vocab_size` tokens: the 256 bytes, then the merges, then Qwen's added tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(CONTROL_TOKENS) - len(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(n_chats), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL_TOKENS])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    return tokenizer


def _corpus(n_chats: int) -> Iterator[str]:
    rng = random.Random(0)
    for _ in range(n_chats):
        chat = make_chat(rng)
        for message in chat.messages:
            yield message["content"]
        yield chat.thinking or ""
        yield chat.answer
    yield from (" " + word for word in WORDS)
    yield from (word for word in WORDS)
    yield CHAT_TEMPLATE


@dataclass(frozen=True)
class EncodedChat:
    """Token ids of a prompt and of the reply to it, the reply closed by `<|im_end|>`.

    `taught` are the positions in prompt + reply that the loss looks at: the reply and the earlier answers. An earlier
    answer has lost its reasoning, so its first token says nothing about how a reply begins and is left out.
    """

    prompt: list[int]
    reply: list[int]
    taught: list[int]


class ChatEncoder:
    """Chats to ids, through the model's own template as transformers would render it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._header = tokenizer.encode("<|im_start|>assistant\n").ids
        self._end = tokenizer.token_to_id("<|im_end|>")

    def encode(self, chat: Chat) -> EncodedChat:
        prompt = self.tokenizer.encode(prompt_text(chat)).ids
        reply = self.tokenizer.encode(chat.reply + "<|im_end|>").ids
        taught = [*self._earlier_answers(prompt), *range(len(prompt), len(prompt) + len(reply))]
        return EncodedChat(prompt, reply, taught)

    def _earlier_answers(self, prompt: list[int]) -> Iterator[int]:
        n = len(self._header)
        for start in range(len(prompt) - n):
            if prompt[start : start + n] == self._header and self._end in prompt[start:]:
                yield from range(start + n + 1, prompt.index(self._end, start) + 1)


def prompt_text(chat: Chat) -> str:
    """The prompt as transformers would render it from the model's own template."""
    variables: dict[str, Any] = {"enable_thinking": False} if chat.thinking is None else {}
    template = _template(chat.compact_json)
    return template.render(messages=chat.messages, tools=chat.tools, add_generation_prompt=True, **variables)


@functools.cache
def _template(compact_json: bool) -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    separators = (",", ":") if compact_json else None
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False, separators=separators)
    return environment.from_string(CHAT_TEMPLATE)
