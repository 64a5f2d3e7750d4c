"""`qchat repl`: the chat as a plain line interface."""

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
from app.settings import load_settings


@click.command()
@model_option
@session_options
@chat_options
@sampling_options
@engine_options
@click.option("--show-thinking/--hide-thinking", default=None, help="Show the thinking as it comes.")
@click.option("--plain", is_flag=True, help="Bare lines without editing or control codes, as on a dumb terminal.")
@click.pass_context
def repl(
    ctx: click.Context,
    /,
    session: str | None,
    resume_last: bool,
    show_thinking: bool | None,
    plain: bool,
    **_settings: Any,
) -> None:
    """Chat line by line: for dumb terminals, ssh and screen readers.

    The same chats as in the app; /help lists the commands. Where standard input is no terminal, each line of it is one
    message or command, and a line of three quotes begins and ends a message of several lines. Answers go to stdout,
    everything else to stderr.
    """
    from app.cli.log import keep_log  # noqa: PLC0415 - --help does without
    from app.ui.repl.loop import run_repl  # noqa: PLC0415

    chat = chosen_chat(session, resume_last)
    flags = {**setting_flags(ctx), "show_thinking": show_thinking}
    flags = {key: value for key, value in flags.items() if value is not None}
    load_settings(flags)
    keep_log()
    ctx.exit(run_repl(flags, None if chat == "new" else chat, plain))


repl.params = [option for option in repl.params if option.name != "stop"]  # a chat keeps whole messages
