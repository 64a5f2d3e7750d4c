"""The splitting rules: how text is cut into words before byte-pair merging, by the name a GGUF file gives.

`tokenizer.ggml.pre` names the rule that the model was trained with. A neighbouring rule gives other ids for code,
digits and whitespace, and a visibly worse answer, so a name that is not in this table is refused and never guessed.
The expressions, the whole-word rule and the default for the begin token are those of llama.cpp (`src/llama-vocab.cpp`,
`llm_tokenizer_bpe` and `impl::load`); docs/decisions/tokenizer-reference.md says why it is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Contractions are spelled out: with (?i:'s) a regex engine also folds U+017F (long s), which llama.cpp does not.
_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_AFTER_DIGITS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class SplitRule:
    """How one family cuts text into words.

    patterns: applied one after the other, each within the pieces that the one before left; what an expression does not
        match stays a piece of its own.
    whole_words: a word that is itself in the vocabulary is that token, whatever the merges say.
    add_bos: whether a prompt begins with the begin token where the file has no `tokenizer.ggml.add_bos_token`.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


_QWEN2_RULE = SplitRule((_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _AFTER_DIGITS,))
_LLAMA3_RULE = SplitRule(
    (_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _AFTER_DIGITS,), whole_words=True, add_bos=True
)
_SMOLLM_RULE = SplitRule((r"\p{N}", _GPT_2))
_GPT_2_RULE = SplitRule((_GPT_2,))

# Second names are those for which llama.cpp sets the same rule and the same two flags, as far as files of the
# architectures that the engine runs carry them.
SPLIT_RULES: Mapping[str, SplitRule] = {
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
    "megrez": _QWEN2_RULE,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "falcon3": _LLAMA3_RULE,
    "smollm": _SMOLLM_RULE,
    "gpt-2": _GPT_2_RULE,
    "a.x-4.0": _GPT_2_RULE,
}
