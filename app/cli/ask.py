"""`qchat ask`: one question, one answer, and a contract that scripts can rely on.

stdout holds the answer and one newline, or with --json one object; everything else goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from app.backends.base import Backend, ChatRequest
from app.backends.registry import open_backend
from app.chat.turn import Turn
from app.cli.options import chat_options, engine_options, model_option, sampling_options, setting_flags
from app.cli.stdin import read_prompt
from app.cli.terminal import write_json
from app.errors import UsageError
from app.settings import Settings, load_settings
from app.ui.plain import PlainOutput, statistics

EXIT_NO_ANSWER = 1
EXIT_INTERRUPTED = 130


class _AskCommand(click.Command):
    """Says what to do with a prompt that looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = f"{error.format_message()} (a prompt that begins with a dash goes after --)"
            raise click.UsageError(message, ctx) from None


@click.command(cls=_AskCommand)
@click.argument("prompt", required=False)
@model_option
@chat_options
@sampling_options
@engine_options
@click.option("--show-thinking/--hide-thinking", default=None, help="Show the thinking on stderr.")
@click.option("--raw", is_flag=True, help="Send the text without a chat template; nothing in it is a control token.")
@click.option("--no-stdin", is_flag=True, help="Do not read standard input.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the answer.")
@click.option("--stats", is_flag=True, help="Tokens, seconds and speed of each stage, on stderr.")
@click.pass_context
def ask(
    ctx: click.Context,
    /,
    prompt: str | None,
    stop: tuple[str, ...],
    show_thinking: bool | None,
    raw: bool,
    no_stdin: bool,
    as_json: bool,
    stats: bool,
    **_settings: Any,
) -> None:
    """Answer one question and exit.

    Standard input is appended to PROMPT when it is not a terminal; "-" reads all of the prompt from it. The answer goes
    to stdout as UTF-8, everything else to stderr. A prompt that begins with a dash goes after --.

    Stop texts end the answer, not the thinking. Exit codes: 0 fine; 1 failed, or the token limit came before any
    answer; 2 usage; 3 backend or network unreachable; 4 timed out; 130 interrupted.
    """
    settings = load_settings({**setting_flags(ctx), "show_thinking": show_thinking})
    if "" in stop:
        raise UsageError("a stop text must not be empty")
    if raw and (ctx.params["system"] is not None or ctx.params["thinking"] is not None):
        raise UsageError("--raw sends the text alone, so --system, --think and --no-think have no place in it")
    output = PlainOutput(show_answer=not as_json, show_thinking=settings.show_thinking)
    turn = None
    try:
        text = read_prompt(prompt, not no_stdin, lambda line: output.say(f"qchat: {line}"))
        backend = open_backend(settings, output.show)
        turn = Turn(backend, _request(text, settings, stop, raw), output.show)
        asyncio.run(_run(turn, backend))
    except KeyboardInterrupt:
        output.finish()
        output.say("qchat: interrupted")
        if as_json:
            write_json(_document(turn, settings, {"type": "Interrupted", "message": "interrupted", "hint": None}))
        ctx.exit(EXIT_INTERRUPTED)
    finally:
        with contextlib.suppress(BrokenPipeError):  # met before, or not worth a word now that the reply is over
            output.finish()
    if stats:
        output.say(statistics(turn.reply, backend.facts))
    error = None
    if turn.reply.cut_off_without_answer:
        error = {"type": "NoAnswer", "message": turn.reply.notices[-1], "hint": None}
    if as_json:
        write_json(_document(turn, settings, error))
    ctx.exit(EXIT_NO_ANSWER if error else 0)


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


def _document(turn: Turn | None, settings: Settings, error: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `--json` prints: the reply, or as much as there is of it with an `error`."""
    failure = {"error": error} if error else {}
    if turn is None:
        return failure
    reply = turn.reply
    return {
        "model": turn.backend.model,
        "backend": settings.backend,
        "answer": reply.answer,
        "thinking": reply.thinking,
        "tool_calls": [asdict(call) for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "prompt_ids": list(reply.prompt_ids),
        "answer_ids": list(reply.answer_ids),
        "usage": asdict(reply.usage) if reply.usage else None,
        "notices": list(reply.notices),
        **failure,
    }
