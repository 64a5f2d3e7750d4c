"""Commands that fail in every way, for the tests of what the command line makes of it."""

from __future__ import annotations

import sys
from typing import Any

import click

from app.cli.options import chat_options, engine_options, model_option, sampling_options, setting_flags
from app.cli.terminal import write_json
from app.errors import BackendTimeoutError, ModelFileError, NetworkError, QChatError
from app.settings import load_settings

FAILURES: dict[str, BaseException] = {
    "own": ModelFileError("x.gguf is damaged", "fetch it again"),
    "raw": QChatError("a \x1b[2J\x9b name\nof two lines"),
    "network": NetworkError("no network"),
    "slow": BackendTimeoutError("too slow"),
    "bug": ValueError("nobody \x1b[2J expected this"),
    "interrupt": KeyboardInterrupt(),
    "pipe": BrokenPipeError(),
}


@click.command()
@click.argument("how")
@click.option("--json", "as_json", is_flag=True)
def fail(how: str, as_json: bool) -> None:
    raise FAILURES[how]


@click.command()
def unflushed() -> None:
    """Leaves its output in the buffer, as a streaming command may."""
    sys.stdout.write("text")


@click.command()
@model_option
@chat_options
@sampling_options
@engine_options
@click.pass_context
def options(ctx: click.Context, **_: Any) -> None:
    settings = load_settings(setting_flags(ctx))
    write_json(dict(settings.items()) | {"stop": ctx.params["stop"]})
