"""Chats with the tiny Qwen3 through the local backend: what each turn takes over from the last, and gives all the same.

What the cache holds is the last prompt and the last reply as the model wrote it. The next prompt has that reply without
its think block, because the template drops earlier reasoning. So the two part where the block began, and what is read
is the last answer, the new question, and no more. In a tool loop reasoning is kept, and the whole reply is in common.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from app.backends.base import ChatRequest
from app.backends.local import LocalBackend
from app.chat.turn import Reply, Turn
from app.engine.gguf import read_gguf
from app.engine.model import load_model
from app.engine.tokenizer import Tokenizer
from app.hub import Library
from app.ui.plain import statistics
from tests.backends.fakes import UNSET, message_of
from tests.models.tiny_qwen3_words import WEATHER_TOOL

Message = Mapping[str, Any]
QUESTIONS = [
    {"role": "user", "content": "My name is Tom."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "user", "content": "What is my name?"},
]
WEATHER = [
    {"role": "user", "content": "What is the weather in Paris?"},
    {"role": "tool", "content": '{"temperature": 12, "sky": "sunny"}'},
]


def chat(path: Path, *asked: Message | Sequence[Message], **more: Any) -> list[Reply]:
    """The greedy replies of one process to each of `asked`: a message is the next of its chat, a list a chat anew."""

    async def run() -> list[Reply]:
        backend = LocalBackend(load_model(path, n_ctx=1024), "tiny", Library(Path("no models here")))
        replies: list[Reply] = []
        messages: list[Message] = []
        for item in asked:
            messages = [*messages, item] if isinstance(item, Mapping) else list(item)
            request = ChatRequest(messages=messages, sampling=UNSET, max_tokens=200, **more)
            replies.append(await Turn(backend, request, lambda _: None).run())
            messages.append(message_of(replies[-1]))
        await backend.close()
        return replies

    return asyncio.run(run())


def reused(reply: Reply) -> int:
    assert reply.usage is not None
    return reply.usage.reused_tokens


def in_cache(reply: Reply) -> list[int]:
    """What the cache holds after a reply that ended itself: all that was fed to draw its end."""
    return [*reply.prompt_ids, *reply.answer_ids]


def in_common(a: Sequence[int], b: Sequence[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))


@pytest.mark.parametrize("thinking", [None, False])
def test_a_new_turn_reads_the_last_answer_and_the_question_and_reuses_all_before(
    tiny_qwen3_path: Path, thinking: bool | None
) -> None:
    with read_gguf(tiny_qwen3_path) as gguf:
        tokenizer = Tokenizer.from_gguf(gguf)
    replies = chat(tiny_qwen3_path, *QUESTIONS, thinking=thinking)
    assert reused(replies[0]) == 0
    assert "Tom" in replies[2].answer
    off = "<think>\n\n</think>\n\n" if thinking is False else ""
    for last, reply, question in zip(replies, replies[1:], QUESTIONS[1:], strict=False):
        assert bool(last.thinking) == (thinking is None)
        assert reused(reply) == in_common(in_cache(last), reply.prompt_ids)
        assert tokenizer.decode(reply.prompt_ids[: reused(reply)]) == tokenizer.decode(last.prompt_ids).removesuffix(
            off
        )
        assert tokenizer.decode(reply.prompt_ids[reused(reply) :]) == (
            f"{last.answer}<|im_end|>\n<|im_start|>user\n{question['content']}<|im_end|>\n<|im_start|>assistant\n{off}"
        )
        told = f"{len(reply.prompt_ids)} tokens, {reused(reply)} of them reused"
        assert told in statistics(reply, {})


def test_in_a_tool_loop_the_whole_reply_is_reused_reasoning_and_call(tiny_qwen3_path: Path) -> None:
    called, answered = chat(tiny_qwen3_path, *WEATHER, tools=[WEATHER_TOOL])
    assert called.thinking and [call.arguments for call in called.tool_calls] == [{"city": "Paris"}]
    assert "12 degrees" in answered.answer
    assert reused(answered) == len(in_cache(called)) == in_common(in_cache(called), answered.prompt_ids)


def test_asking_the_same_again_reads_the_last_token_alone_and_answers_the_same(tiny_qwen3_path: Path) -> None:
    first, again = chat(tiny_qwen3_path, QUESTIONS[:1], QUESTIONS[:1])
    assert again.prompt_ids == first.prompt_ids
    assert reused(again) == len(first.prompt_ids) - 1
    assert again.answer_ids == first.answer_ids


@pytest.mark.parametrize("thinking", [None, False])
def test_every_turn_is_answered_as_by_a_fresh_process_given_the_saved_chat(
    tiny_qwen3_path: Path, thinking: bool | None
) -> None:
    warm = chat(tiny_qwen3_path, *QUESTIONS, thinking=thinking)
    saved: list[Message] = []
    for question, reply in zip(QUESTIONS, warm, strict=True):
        saved.append(question)
        (fresh,) = chat(tiny_qwen3_path, json.loads(json.dumps(saved)), thinking=thinking)
        assert reused(fresh) == 0
        assert (fresh.prompt_ids, fresh.answer_ids, message_of(fresh)) == (
            reply.prompt_ids,
            reply.answer_ids,
            message_of(reply),
        )
        saved.append(message_of(reply))
