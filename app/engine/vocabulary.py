"""The vocabulary that a GGUF file describes, checked before anything is built from it.

The metadata says what the tokens are, which of them are control tokens and which end a reply, and it may contradict
itself. Everything that the tokenizer relies on is settled here, in the way llama.cpp settles it for the same file
(`src/llama-vocab.cpp`, `impl::load`), except where docs/decisions/tokenizer-reference.md says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.engine.split_rules import SPLIT_RULES, SplitRule
from app.engine.strings import Strings
from app.engine.text_index import TextIndex
from app.errors import ModelFileError, UnsupportedModelError, printable

# Token types of a GGUF file; 4 ("user defined") marks added tokens such as <think>.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_CONTROL_TYPES = (_UNKNOWN, _CONTROL, _USER_DEFINED)

# Control tokens that end a reply by their name, as llama.cpp collects them in `special_eog_ids` (src/llama-vocab.cpp):
# the ends of a turn or a text, then the marks of code completion that can only stand where a reply is over.
_END_NAMES = frozenset(
    {
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>"),
        *("_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<｜end▁of▁sentence｜>"),
        *("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|file_sep|>"),
        *("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    }
)
_LONGEST = 1 << 16  # bytes of a token or merge; what is computed for each of them takes memory
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer is built from.

    tokens: by id, in the byte alphabet (control tokens in plain text); ids: the other way round.
    merges: "left right", best first; merge_ranks: where each stands.
    control_tokens: text -> id of the tokens that only a template may write.
    eos_ids: ids that end a reply; bos_id: the begin token; add_bos: whether every prompt starts with it.
    """

    rule: SplitRule
    tokens: Strings
    ids: TextIndex
    merges: Strings
    merge_ranks: TextIndex
    control_tokens: Mapping[str, int]
    eos_ids: frozenset[int]
    bos_id: int | None
    add_bos: bool


def read_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary in the `tokenizer.ggml.*` keys.

    Raises UnsupportedModelError for another kind of tokenizer or an unknown splitting rule, and ModelFileError where
    tokens, types and special ids contradict each other.
    """
    rule = _split_rule(metadata)
    tokens, merges = _strings(metadata, "tokens"), _strings(metadata, "merges")
    ids, merge_ranks = TextIndex(tokens), TextIndex(merges)
    if (again := ids.repeated()) is not None:
        raise ModelFileError(f'the model file lists the token "{printable(again)}" twice', "fetch or convert it again")
    control_tokens = _control_tokens(tokens, ids, _token_types(metadata, len(tokens)), merge_ranks)
    bos_id = _special_id(metadata, "bos_token_id", len(tokens))
    add_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", rule.add_bos))
    if add_bos and bos_id is None:
        raise ModelFileError("the model file asks for a begin token (add_bos_token) but names none (bos_token_id)")
    named = (_special_id(metadata, key, len(tokens)) for key in _END_KEYS)
    by_name = (control_tokens.get(name) for name in _END_NAMES)
    eos_ids = frozenset(i for i in (*named, *by_name) if i is not None)
    return Vocabulary(rule, tokens, ids, merges, merge_ranks, control_tokens, eos_ids, bos_id, add_bos)


def merges_making(names: Iterable[str], merge_ranks: TextIndex) -> dict[int, str]:
    """The merges whose result is one of `names`: rank -> name."""
    halves = ((name, f"{name[:i]} {name[i:]}") for name in names for i in range(1, len(name)))
    found = ((merge_ranks.find(merge), name) for name, merge in halves)
    return {rank: name for rank, name in found if rank is not None}


def _control_tokens(
    tokens: Strings, ids: TextIndex, types: NDArray[np.int64], merge_ranks: TextIndex
) -> dict[str, int]:
    marked = np.flatnonzero(np.isin(types, _CONTROL_TYPES)).tolist()
    control_tokens = {tokens[i]: i for i in marked if tokens[i]}
    # Some converters leave the end of a turn "normal". It is a control token all the same, unless merging can make it,
    # as with </s> in Qwen's vocabulary: that one is text.
    named = ((name, ids.find(name)) for name in sorted(_END_NAMES))
    normal_ends = {name: i for name, i in named if i is not None and types[i] == _NORMAL}
    made = set(merges_making(normal_ends, merge_ranks).values())
    return control_tokens | {name: token_id for name, token_id in normal_ends.items() if name not in made}


def _strings(metadata: Mapping[str, Any], key: str) -> Strings:
    given = _required(metadata, key)
    texts = given if isinstance(given, Strings) else Strings.of(given)
    if (longest := int(np.max(texts.ends - texts.begins, initial=0))) > _LONGEST:
        raise ModelFileError(f"tokenizer.ggml.{key} of the model file has an entry of {longest:,} bytes")
    return texts


def _required(metadata: Mapping[str, Any], key: str) -> Any:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        raise ModelFileError(f"the model file has no tokenizer.ggml.{key}", "convert it again, with its tokenizer")
    return value


def _split_rule(metadata: Mapping[str, Any]) -> SplitRule:
    model = str(_required(metadata, "model"))
    if model != "gpt2":
        raise UnsupportedModelError(
            f'the model file has a tokenizer of kind "{printable(model)}"; qchat runs byte-level BPE ("gpt2") only',
            "use a file of the qwen2, qwen3 or llama 3 family",
        )
    name = str(_required(metadata, "pre"))
    rule = SPLIT_RULES.get(name)
    if rule is None:
        raise UnsupportedModelError(
            f'the model file names the splitting rule "{printable(name)}" (tokenizer.ggml.pre), unknown to qchat',
            f"known rules: {', '.join(SPLIT_RULES)}",
        )
    return rule


def _token_types(metadata: Mapping[str, Any], n_tokens: int) -> NDArray[np.int64]:
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return np.full(n_tokens, _NORMAL, np.int64)
    if len(types) != n_tokens:
        raise ModelFileError(f"the model file has {n_tokens:,} tokens but {len(types):,} token types")
    return np.asarray(types, np.int64)


def _special_id(metadata: Mapping[str, Any], key: str, n_tokens: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not 0 <= int(value) < n_tokens:
        raise ModelFileError(f"tokenizer.ggml.{key} is {int(value)}, outside the vocabulary of {n_tokens:,} tokens")
    return int(value)
