"""`qchat ask`: one question, one answer, and a contract that scripts can rely on.

stdout holds the answer and one newline, or with --json one object; everything else goes to stderr. What answers is
imported when there is something to answer, so that help and completion stay instant.
"""

from __future__ import annotations

from typing import Any

import click

from app.cli.options import (
    chat_options,
    chosen_chat,
    engine_options,
    model_option,
    sampling_options,
    session_options,
    setting_flags,
)
from app.cli.stdin import read_prompt
from app.errors import UsageError
from app.settings import load_settings


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
@session_options
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
    session: str | None,
    resume_last: bool,
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

    Nothing is saved, except with --session or --continue: then the question goes to the end of that chat, with all that
    was said before, and the model is the chat's own unless -m names another for this once. A chat that --session new
    begins keeps the model, system message, thinking and sampling given with it; its id is told on stderr and in --json.

    Stop texts end the answer, not the thinking. Exit codes: 0 fine; 1 failed, or the token limit came before any
    answer, or the chat could not be saved; 2 usage; 3 backend or network unreachable; 4 timed out; 130 interrupted.
    """
    flags = {**setting_flags(ctx), "show_thinking": show_thinking}
    if "" in stop:
        raise UsageError("a stop text must not be empty")
    if raw and (ctx.params["system"] is not None or ctx.params["thinking"] is not None):
        raise UsageError("--raw sends the text alone, so --system, --think and --no-think have no place in it")
    chat = chosen_chat(session, resume_last)
    if chat is not None and (raw or stop):
        raise UsageError("--raw and --stop cannot be used in a chat: it keeps whole messages")

    def read(say: Any) -> str:
        return read_prompt(prompt, not no_stdin, lambda line: say(f"qchat: {line}"))

    if chat is not None:
        from app.cli.answer_in_chat import answer_in_chat  # noqa: PLC0415 - see above

        ctx.exit(answer_in_chat(chat, read, flags, as_json, stats))
    from app.cli.answer import answer  # noqa: PLC0415

    ctx.exit(answer(read, load_settings(flags), stop, raw, as_json, stats))
