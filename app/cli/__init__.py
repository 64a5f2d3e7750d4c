"""The command line: a table of commands that are imported when they are used, and one place where errors become text.

`qchat --help` has to be instant, so the group knows its commands' one-line helps by heart and imports nothing else.
`main` is the only caller that turns an exception into an exit code, so every command can simply raise.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from app.cli import suggest
from app.cli.terminal import escape_controls, prepare_streams, write_json
from app.errors import QChatError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class LazyCommand(NamedTuple):
    """Where a command lives and what the listing says about it."""

    target: str  # "module:attribute"
    help: str


COMMANDS: Mapping[str, LazyCommand] = {
    "ask": LazyCommand("app.cli.ask:ask", "Answer one question and exit."),
    "repl": LazyCommand("app.cli.repl:repl", "Chat line by line: for dumb terminals, ssh and screen readers."),
    "models": LazyCommand("app.cli.models:models", "List, fetch, show, verify and remove models."),
    "sessions": LazyCommand("app.cli.sessions:sessions", "List, show, search, rename, export and delete chats."),
    "backends": LazyCommand(
        "app.cli.backends:backends", "Show backends and servers, whether they can be used, and keep their keys."
    ),
    "prompt": LazyCommand("app.cli.prompt:prompt", "Show the exact prompt text and token ids of a conversation."),
    "bench": LazyCommand("app.cli.bench:bench", "Measure load, prompt and generation speed on this machine."),
    "config": LazyCommand("app.cli.config:config", "Show settings and where they come from; edit them."),
    "completion": LazyCommand("app.cli.completion:completion", "Let the shell complete commands, models and chats."),
}


class LazyGroup(click.Group):
    """A click group whose commands are imported only when one is invoked or asked for its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry.target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - slow to import and only for a shell

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=COMMANDS[name].help) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    import platform  # noqa: PLC0415 - only --version pays for it

    from app import __version__  # noqa: PLC0415

    click.echo(f"qchat {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
    ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-m",
    "--model",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    shell_complete=suggest.models,
    help="Without NAME: choose one first.",
)
@click.option("--session", metavar="CHAT", shell_complete=suggest.chats, help="Open this chat.")
@click.option("--continue", "resume_last", is_flag=True, help="Open the latest chat.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
@click.pass_context
def cli(ctx: click.Context, model: str | None, session: str | None, resume_last: bool) -> None:
    """Chat with local models in the terminal: private, fast, reproducible.

    Without a command the app starts; the options here, --version apart, are for it alone.
    """
    if ctx.invoked_subcommand is None:
        from app.cli.app_command import start_app  # noqa: PLC0415

        ctx.exit(start_app(model, session, resume_last))
    if model is not None or session is not None or resume_last:
        message = f"the options before '{ctx.invoked_subcommand}' are for the app: write them after the command"
        raise click.UsageError(message, ctx)


def main() -> None:
    """The console script `qchat`; with _QCHAT_COMPLETE, the answer to a shell's completion script."""
    instruction = os.environ.get("_QCHAT_COMPLETE")
    sys.exit(complete(instruction) if instruction else run(sys.argv[1:]))


def complete(instruction: str) -> int:
    """Answer a completion script and return the exit code. A failure is only logged: somebody is typing."""
    from app.cli.completion import answer_shell  # noqa: PLC0415

    prepare_streams()
    try:
        return _flush(answer_shell(cli, instruction))
    except Exception as error:
        from app.cli.log import record_traceback  # noqa: PLC0415

        record_traceback(error)
        return EXIT_FAILED


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; every message about a failure is written here."""
    prepare_streams()
    try:
        with cli.make_context("qchat", list(args)) as ctx:
            cli.invoke(ctx)
        code = 0
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        code = _report_click(error, args)
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted", None)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = 0
    except QChatError as error:
        code = _report(error, args)
    except Exception as error:
        code = _report_bug(error, args)
    return _flush(code)


def _report(error: QChatError, args: Sequence[str]) -> int:
    from app.cli.log import record_traceback  # noqa: PLC0415 - nothing to log, nothing to import

    record_traceback(error)
    _show_traceback_if_debugging(error)
    _complain(error.message, error.hint)
    _answer_json(args, type(error).__name__, error.message, error.hint)
    return error.exit_code


def _report_click(error: click.ClickException, args: Sequence[str]) -> int:
    """click's own complaints: a wrong option or value, or a group called without a command (which shows its help)."""
    ctx: click.Context | None = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and ctx is not None:  # click >= 8.2 raises it, 8.1 exits
        click.echo(ctx.get_help())
        return 0
    hint = f"see '{ctx.command_path if ctx else 'qchat'} --help'"
    message = error.format_message()
    _complain(message, hint)
    _answer_json(args, "UsageError", message, hint)
    return EXIT_USAGE


def _report_bug(error: Exception, args: Sequence[str]) -> int:
    """An exception nobody planned for: one line for the person, everything in the log file."""
    from app.cli.log import record_traceback  # noqa: PLC0415

    kept_in = record_traceback(error)
    _show_traceback_if_debugging(error)
    message = f"unexpected {type(error).__name__}: {error}"
    hint = f"the details are in {kept_in}" if kept_in else "the log could not be written; QCHAT_DEBUG=1 shows it all"
    _complain(message, hint)
    _answer_json(args, type(error).__name__, message, hint)
    return EXIT_FAILED


def _complain(message: str, hint: str | None) -> None:
    lines = [f"qchat: {message}"] + ([f"  {hint}"] if hint else [])
    for line in lines:
        click.echo(escape_controls(" ".join(line.splitlines())), err=True)


def _answer_json(args: Sequence[str], kind: str, message: str, hint: str | None) -> None:
    """With --json a script reads stdout, so the failure is there too, as the one document."""
    options = args[: args.index("--")] if "--" in args else args
    if "--json" in options:
        write_json({"error": {"type": kind, "message": message, "hint": hint}})


def _show_traceback_if_debugging(error: Exception) -> None:
    if os.environ.get("QCHAT_DEBUG") == "1":
        import traceback  # noqa: PLC0415

        click.echo(escape_controls("".join(traceback.format_exception(error))), err=True, nl=False)


def _flush(code: int) -> int:
    """Flush stdout while a closed pipe can still be met in silence, instead of at interpreter exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    return code
