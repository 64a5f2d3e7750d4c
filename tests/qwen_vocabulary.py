"""The vocabulary of Qwen2, 2.5 and 3 as a GGUF file carries it, rebuilt from public parts for the tests.

The base vocabulary comes from the PyPI wheel `dashscope`, which holds it as a rank file (`base64(token) rank` a line).
A GGUF file lists merges instead, so those are derived: the two parts of a token are what merging by rank leaves of its
bytes just before the merge that completes it. That is how the published merges of Qwen were made. The derivation takes
seconds, so its result is kept in the test cache.
"""

from __future__ import annotations

import base64
import functools
import itertools
from pathlib import Path
from typing import Any

from tests.kept import alone, wheel_member

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # GGUF token types
N_TOKENS = 151_936  # rows of the embedding of Qwen3-0.6B .. 14B; the entries after the control tokens are padding

# Ids 151643 onwards, in order, as in the tokenizer_config.json of Qwen3 ("special": true, then false).
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ADDED_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


def _byte_characters() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [shifted.get(byte, chr(byte)) for byte in range(256)]


_CHARACTERS = dict(enumerate(_byte_characters()))


def _as_text(token: bytes) -> str:
    return token.decode("latin-1").translate(_CHARACTERS)


def _halves(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two parts whose merge makes `token`: merge its bytes, lowest rank first, until two are left."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pair_ranks = [ranks.get(left + right, N_TOKENS) for left, right in itertools.pairwise(parts)]
        best = min(range(len(pair_ranks)), key=pair_ranks.__getitem__)
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts[0], parts[1]


def _derived_merges(ranks: dict[bytes, int], kept: Path) -> list[str]:
    with alone(kept.parent):
        if not kept.exists():
            pairs = (_halves(token, ranks) for token in ranks if len(token) > 1)
            text = "\n".join(f"{_as_text(left)} {_as_text(right)}" for left, right in pairs)
            part = kept.with_suffix(".part")
            part.write_text(text, encoding="utf-8")
            part.replace(kept)
    return kept.read_text(encoding="utf-8").split("\n")


@functools.cache
def qwen_metadata() -> dict[str, Any]:
    """The `tokenizer.ggml.*` keys of a Qwen3 file: 151,936 tokens, their types, the merges, the rule's name and ids."""
    source = wheel_member("dashscope", "qwen.tiktoken")
    rows = (line.split() for line in source.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    tokens = [_as_text(token) for token in ranks]
    types = [NORMAL] * len(tokens)
    for names, token_type in ((SPECIAL_TOKENS, CONTROL), (ADDED_TOKENS, USER_DEFINED)):
        tokens += names
        types += [token_type] * len(names)
    padding = range(len(tokens), N_TOKENS)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens + [f"[PAD{i}]" for i in padding],
        "tokenizer.ggml.token_type": types + [UNUSED] * len(padding),
        "tokenizer.ggml.merges": _derived_merges(ranks, source.with_name("qwen-merges.txt")),
        "tokenizer.ggml.bos_token_id": 151_643,
        "tokenizer.ggml.eos_token_id": 151_645,
        "tokenizer.ggml.add_bos_token": False,
    }
