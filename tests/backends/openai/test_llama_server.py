"""llama.cpp's own server, real and with real models: the same replies as from our engine, cancelling, limits.

The tiny Qwen3 (Q8_0) must be answered with the same words as by the local engine, whatever is asked. SmolLM2 (Q4_1) has
near ties that the two engines round to different sides (docs/numerics.md), so there the prompts must be of the same
length, and the replies must begin with the same words.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from app.backends.base import Answer, ChatRequest, Thinking
from app.backends.local import LocalBackend
from app.backends.openai.backend import OpenAIBackend
from app.backends.remote.server import ServerSettings
from app.chat.turn import Reply, Turn
from app.engine.model import load_model
from app.errors import BackendError, ContextOverflowError
from app.hub import Library
from tests.backends.fakes import UNSET
from tests.backends.openai.llama_server import NAME, LlamaServer
from tests.models.tiny_qwen3_words import WEATHER_TOOL

CONTEXT = 512
PATIENCE_S = 120.0


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(*messages: Any, max_tokens: int = 200, **fields: Any) -> ChatRequest:
    return ChatRequest([user(m) if isinstance(m, str) else m for m in messages], UNSET, max_tokens, **fields)


@pytest.fixture(scope="module")
def server(tiny_qwen3_path: Path) -> Iterator[LlamaServer]:
    with LlamaServer(tiny_qwen3_path, n_ctx=CONTEXT, slots=2) as server:
        yield server


def backend(server: LlamaServer, **fields: Any) -> OpenAIBackend:
    return OpenAIBackend(ServerSettings("llama", "openai", server.url, **{"model": NAME, **fields}))


async def replies(answering: Any, requests: Sequence[ChatRequest]) -> list[Reply]:
    found = [await Turn(answering, each, lambda _: None).run() for each in requests]
    await answering.close()
    return found


def words(reply: Reply) -> tuple[Any, ...]:
    return reply.thinking, reply.answer, reply.tool_calls, reply.finish_reason, reply.notices


CALLED = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "The weather needs the tool get_weather.",
    "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}],
}
RESULT = {"role": "tool", "content": '{"temperature": 12, "sky": "sunny"}'}
ASKED = [
    request("hello"),
    request("What is 17 + 25?"),
    request("What is the capital of France?", thinking=False),
    request("What is the capital of France?", thinking=True),
    request("My name is Tom.", {"role": "assistant", "content": "Hello Tom!"}, "What is my name?"),
    request({"role": "system", "content": "Answer in capital letters."}, "What is the capital of Spain?"),
    request("What is the weather in Paris?", tools=[WEATHER_TOOL]),
    request("What is the weather in Paris?", CALLED, RESULT, tools=[WEATHER_TOOL]),
    request("What is 17 + 25?", max_tokens=10),
    request("What is 17 + 25?", stop=("=",)),
]


def test_the_replies_are_those_of_the_local_engine(server: LlamaServer, tiny_qwen3_path: Path) -> None:
    local = LocalBackend(load_model(tiny_qwen3_path, n_ctx=CONTEXT), "tiny", Library(Path("no models here")))
    ours = asyncio.run(replies(local, ASKED))
    theirs = asyncio.run(replies(backend(server), ASKED))
    assert [words(reply) for reply in theirs] == [words(reply) for reply in ours]
    assert all(reply.thinking for reply in theirs[:2])
    assert theirs[2].thinking == "" and theirs[2].answer
    assert [call.arguments for call in theirs[6].tool_calls] == [{"city": "Paris"}]
    for own, reply in zip(ours, theirs[:-1], strict=False):
        assert own.usage and reply.usage
        assert reply.usage.prompt_tokens == own.usage.prompt_tokens
        ends_itself = reply.finish_reason == "stop"  # the server counts the token that ends a reply
        assert reply.usage.generated_tokens == (own.usage.generated_tokens or 0) + ends_itself
        assert (reply.usage.decode_s or 0) > 0 and (reply.usage.first_token_s or 0) > 0
    assert theirs[-1].usage and theirs[-1].usage.generated_tokens is None  # the connection was closed at the stop text


def test_smollm2_begins_as_with_the_local_engine(smollm2_path: Path) -> None:
    asked = [
        request(text, max_tokens=12) for text in ("hello", "Write one sentence about the sea.", "Why is the sky blue?")
    ]
    local = LocalBackend(load_model(smollm2_path, n_ctx=CONTEXT), "smollm2", Library(Path("no models here")))
    ours = asyncio.run(replies(local, asked))
    with LlamaServer(smollm2_path, n_ctx=CONTEXT) as smollm2:
        theirs = asyncio.run(replies(backend(smollm2), asked))
    for own, reply in zip(ours, theirs, strict=True):
        assert own.usage and reply.usage
        assert reply.usage.prompt_tokens == own.usage.prompt_tokens
        assert reply.answer.split()[:3] == own.answer.split()[:3] != []
        assert reply.thinking == ""


def test_models(server: LlamaServer) -> None:
    assert asyncio.run(backend(server).models()) == [NAME]


def test_two_replies_at_once_are_the_replies_alone(server: LlamaServer) -> None:
    async def both() -> list[Reply]:
        one = backend(server)
        return await asyncio.gather(*(Turn(one, each, lambda _: None).run() for each in ASKED[1:3]))

    alone = asyncio.run(replies(backend(server), ASKED[1:3]))
    assert [words(reply) for reply in asyncio.run(both())] == [words(reply) for reply in alone]


def test_a_conversation_that_is_too_long_is_told_with_the_servers_numbers(server: LlamaServer) -> None:
    async def ask() -> None:
        one = backend(server)
        with pytest.raises(ContextOverflowError) as caught:
            await Turn(one, request("hello " * 1000), lambda _: None).run()
        assert caught.value.available == CONTEXT
        assert 1000 < (caught.value.needed or 0) < 1100
        assert (await Turn(one, request("hello"), lambda _: None).run()).answer  # it goes on answering
        await one.close()

    asyncio.run(ask())


def test_a_reply_runs_to_the_end_of_the_servers_context(server: LlamaServer) -> None:
    endless = backend(server, body={"ignore_eos": True})
    (reply,) = asyncio.run(replies(endless, [request("hello", max_tokens=-1)]))
    assert reply.finish_reason == "length"
    assert (
        reply.usage and CONTEXT - 5 <= (reply.usage.prompt_tokens or 0) + (reply.usage.generated_tokens or 0) <= CONTEXT
    )


def test_closing_a_reply_frees_its_slot_at_once(tiny_qwen3_path: Path) -> None:
    with LlamaServer(tiny_qwen3_path, n_ctx=32768) as server:

        async def leave() -> None:
            one = backend(server, body={"ignore_eos": True})
            async with aclosing(one.chat(request("hello", max_tokens=-1))) as events:
                async for event in events:
                    if isinstance(event, (Thinking, Answer)):
                        break
                assert [slot["is_processing"] for slot in server.slots()] == [True]
            give_up = time.monotonic() + PATIENCE_S
            while server.slots()[0]["is_processing"]:
                assert time.monotonic() < give_up
            assert server.slots()[0]["next_token"][0]["n_decoded"] < 16384  # half of the reply, had it gone on
            assert (await Turn(one, request("hello"), lambda _: None).run()).finish_reason == "length"
            await one.close()

        asyncio.run(leave())


def test_a_wrong_model_name_or_field_is_the_servers_own_message(server: LlamaServer) -> None:
    wrong = backend(server, body={"messages": "none"})
    with pytest.raises(BackendError, match="llama answered 4") as caught:
        asyncio.run(replies(wrong, [request("hello")]))
    assert "messages" in caught.value.message
