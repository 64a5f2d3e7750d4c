"""One question answered without being kept: what `qchat ask` does, and what it prints in every case."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.backends.base import Backend, ChatRequest
from app.backends.registry import open_backend
from app.chat.turn import Reply, Turn
from app.cli.log import keep_log
from app.cli.terminal import write_json
from app.settings import Settings
from app.ui.plain import PlainOutput, statistics

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
INTERRUPTED = {"type": "Interrupted", "message": "interrupted", "hint": None}

Say = Callable[[str], None]
Error = Mapping[str, Any]


def answer(
    read: Callable[[Say], str], settings: Settings, stop: Sequence[str], raw: bool, as_json: bool, stats: bool
) -> int:
    """Answer the question that `read` gives and return the exit code."""
    keep_log()
    output = PlainOutput(show_answer=not as_json, show_thinking=settings.show_thinking)
    turn = None
    try:
        text = read(output.say)
        backend = open_backend(settings, output.show)
        turn = Turn(backend, _request(text, settings, stop, raw), output.show)
        asyncio.run(_run(turn, backend))
    except KeyboardInterrupt:
        output.finish()
        output.say("qchat: interrupted")
        if as_json:
            write_json(_document(turn, settings, INTERRUPTED))
        return EXIT_INTERRUPTED
    finally:
        with contextlib.suppress(BrokenPipeError):  # met before, or not worth a word now that the reply is over
            output.finish()
    if stats:
        output.say(statistics(turn.reply, backend.facts))
    error = no_answer(turn.reply)
    if as_json:
        write_json(_document(turn, settings, error))
    return EXIT_FAILED if error else 0


def no_answer(reply: Reply) -> Error | None:
    """The `error` of a reply that ended before there was anything that a person asked for."""
    if not reply.cut_off_without_answer:
        return None
    return {"type": "NoAnswer", "message": reply.notices[-1], "hint": None}


def reply_document(reply: Reply, model: str, backend: str) -> dict[str, Any]:
    """What `--json` prints of a reply, or as much as there is of it."""
    return {
        "model": model,
        "backend": backend,
        "answer": reply.answer,
        "thinking": reply.thinking,
        "tool_calls": [asdict(call) for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "prompt_ids": list(reply.prompt_ids),
        "answer_ids": list(reply.answer_ids),
        "usage": asdict(reply.usage) if reply.usage else None,
        "notices": list(reply.notices),
    }


async def _run(turn: Turn, backend: Backend) -> None:
    try:
        await turn.run()
    finally:
        await backend.close()


def _request(text: str, settings: Settings, stop: Sequence[str], raw: bool) -> ChatRequest:
    messages = [{"role": "system", "content": settings.system}] if settings.system else []
    messages.append({"role": "user", "content": text})
    return ChatRequest(
        messages=messages,
        sampling=settings.sampling,
        max_tokens=settings.max_tokens,
        thinking=settings.thinking,
        stop=stop,
        raw_prompt=text if raw else None,
    )


def _document(turn: Turn | None, settings: Settings, error: Error | None) -> dict[str, Any]:
    document = reply_document(turn.reply, turn.backend.model, settings.backend) if turn else {}
    return document | ({"error": error} if error else {})
