"""The committed tiny Qwen3 files are what tests/data/README.md says. What they answer is tested with the engine."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine.gguf import GGMLType, GGUFFile, read_gguf
from app.engine.spec import ModelSpec, check_runnable
from app.engine.tokenizer import Segment, Tokenizer
from app.templates.environment import ChatTemplate
from app.templates.render import Conversation, render
from tests.models.tiny_qwen3_chats import make_chat
from tests.models.tiny_qwen3_tokenizer import CHAT_TEMPLATE, CONTROL_TOKENS, MARKS, prompt_text
from tests.models.tiny_qwen3_words import ADD_TOOL, WEATHER_TOOL

DATA = Path(__file__).parent.parent / "data"
FOUR_LAYERS = ["tiny-qwen3-q8_0.gguf", "tiny-qwen3-q4_0.gguf", "tiny-qwen3-q4_k.gguf"]
FILES = [*FOUR_LAYERS, "tiny-qwen3-2l-q8_0.gguf"]
SAMPLES = [replace(make_chat(random.Random(seed)), compact_json=False) for seed in range(300)]


@pytest.fixture(params=FILES)
def model_file(request: pytest.FixtureRequest) -> GGUFFile:
    return read_gguf(DATA / request.param)


def test_the_network_is_a_runnable_qwen3_whose_head_size_is_not_width_over_heads(model_file: GGUFFile) -> None:
    check_runnable(model_file)
    spec = ModelSpec.from_gguf(model_file)
    assert (spec.architecture, spec.name) == ("qwen3", "Tiny Qwen3")
    assert spec.n_layers == (2 if "2l" in model_file.path.name else 4)
    assert (spec.d_model, spec.d_ff, spec.n_heads, spec.n_kv_heads, spec.head_dim) == (256, 512, 4, 2, 128)
    assert (spec.vocab_size, spec.context_length, spec.rope_theta, spec.rope_style) == (1800, 2048, 1e6, "halves")
    assert spec.qk_norm and spec.tied_head and not spec.qkv_bias


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("tiny-qwen3-q8_0.gguf", {GGMLType.Q8_0: 29}),
        ("tiny-qwen3-q4_0.gguf", {GGMLType.Q4_0: 28, GGMLType.Q6_K: 1}),
        ("tiny-qwen3-q4_k.gguf", {GGMLType.Q4_K: 24, GGMLType.Q6_K: 5}),
        ("tiny-qwen3-2l-q8_0.gguf", {GGMLType.Q8_0: 15}),
    ],
)
def test_each_file_holds_the_formats_that_its_name_says(name: str, types: dict[GGMLType, int]) -> None:
    with read_gguf(DATA / name) as model_file:
        matrices = [tensor.type for tensor in model_file.tensors.values() if len(tensor.shape) == 2]
    assert Counter(matrices) == types


def test_the_files_stay_small_enough_to_live_in_the_repository() -> None:
    sizes = [(DATA / name).stat().st_size for name in FILES]
    assert max(sizes) <= 6_000_000
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 16_000_000


def test_the_tokenizer_declares_qwens_control_tokens_and_every_byte(model_file: GGUFFile) -> None:
    metadata = model_file.metadata
    tokenizer = Tokenizer.from_gguf(model_file)
    assert (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"]) == ("gpt2", "qwen2")
    types = dict(zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True))
    assert [types[text] for text in CONTROL_TOKENS] == [3, 3, 3]
    assert [types[text] for text in MARKS] == [4] * 6
    assert metadata["tokenizer.ggml.eos_token_id"] == tokenizer.control_tokens["<|im_end|>"]
    assert not tokenizer.add_bos
    assert {tokenizer.token_bytes(i) for i in range(256)} == {bytes([byte]) for byte in range(256)}


def test_all_that_the_model_was_taught_survives_its_tokenizer(model_file: GGUFFile) -> None:
    tokenizer = Tokenizer.from_gguf(model_file)
    for chat in SAMPLES:
        ids = tokenizer.encode([Segment(chat.reply, trusted=True)])
        assert tokenizer.decode(ids) == chat.reply
        assert ("<think>" in chat.reply) == (tokenizer.control_tokens["<think>"] in ids)


def test_the_template_in_the_file_renders_as_the_model_was_taught(model_file: GGUFFile) -> None:
    assert model_file.metadata["tokenizer.chat_template"] == CHAT_TEMPLATE
    template = ChatTemplate(CHAT_TEMPLATE)
    for chat in SAMPLES:
        variables = {"enable_thinking": False} if chat.thinking is None else {}
        segments = render(template, Conversation(chat.messages, chat.tools, variables=variables))
        assert "".join(segment.text for segment in segments) == prompt_text(chat)


def rendered(messages: list[dict[str, Any]], **variables: Any) -> str:
    return ChatTemplate(CHAT_TEMPLATE).render({"messages": messages, **variables})


USER = {"role": "user", "content": "2 + 3"}
REASONED = {"role": "assistant", "content": "5", "reasoning_content": "Count on."}


def test_the_template_drops_earlier_reasoning_and_keeps_that_of_the_last_answer() -> None:
    kept = "<|im_start|>user\n2 + 3<|im_end|>\n<|im_start|>assistant\n<think>\nCount on.\n</think>\n\n5<|im_end|>\n"
    dropped = "<|im_start|>user\n2 + 3<|im_end|>\n<|im_start|>assistant\n5<|im_end|>\n"
    inline = {"role": "assistant", "content": "<think>\nCount on.\n</think>\n\n5"}
    for answer in (REASONED, inline):
        assert rendered([USER, answer]) == kept
        assert rendered([USER, answer, USER]).startswith(dropped + "<|im_start|>user")


def test_the_template_gives_an_empty_think_block_only_when_thinking_is_off() -> None:
    end = "<|im_start|>assistant\n"
    assert rendered([USER], add_generation_prompt=True).endswith(end)
    assert rendered([USER], add_generation_prompt=True, enable_thinking=True).endswith(end)
    without = rendered([USER], add_generation_prompt=True, enable_thinking=False)
    assert without.endswith(end + "<think>\n\n</think>\n\n")


def test_the_template_lists_tools_and_joins_their_results_in_one_user_turn() -> None:
    system = {"role": "system", "content": "Be brief."}
    calls = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}] * 2
    call = {"role": "assistant", "content": "", "tool_calls": calls}
    results = [{"role": "tool", "content": "3"}, {"role": "tool", "content": "4"}]
    text = rendered([system, USER, call, *results], tools=[ADD_TOOL, WEATHER_TOOL])
    assert text.startswith("<|im_start|>system\nBe brief.\n\n")
    assert '<tools>\n{"type": "function", "function": {"name": "add"' in text
    assert text.count("<|im_start|>system") == 1
    one = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
    assert f"<|im_start|>assistant\n{one}\n{one}<|im_end|>\n" in text
    responses = "<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response>"
    assert text.endswith(f"<|im_start|>user\n{responses}<|im_end|>\n")
