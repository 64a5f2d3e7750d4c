"""qchat(1), written from the commands themselves: `make man` puts it into docs/man, and a test finds it out of date.

The page is roff with the macros of man(7). What is not ASCII, and every character that roff or a terminal would change
(quotes, dashes, `^`, `~`, a backslash), is written as an escape, so that a line can be copied out of the page and run.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from inspect import cleandoc

import click

from app import __version__
from app.cli.options import SettingType
from app.settings import RULES, shipped_config_dir, variable

_SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}

_EXIT_CODES = (
    ("0", "Fine."),
    ("1", "Failed: no such model or chat, a damaged file, no answer within the token limit, a chat not saved, a bug."),
    ("2", "Usage: a wrong option, setting or name; the app without a terminal."),
    ("3", "A backend or the network could not be reached."),
    ("4", "Timed out."),
    ("130", "Interrupted."),
)
_VARIABLES = (
    ("QCHAT_HOME", "One folder for the config file, models, chats, caches and logs."),
    ("QCHAT_CONFIG", "Another config file."),
    ("QCHAT_DEBUG", "1 shows tracebacks; the log file always has them."),
    ("QCHAT_ISA", "Forces an instruction set of the engine."),
    ("QCHAT_TRACE", "A folder to which the output of every phase of a step is written."),
    ("QCHAT_KEY_NAME", "The API key of the server NAME, in capitals, with _ for what is neither a letter nor a digit."),
    ("OPENAI_API_KEY", "The API key of api.openai.com, sent to that host alone."),
    ("HF_ENDPOINT, HF_TOKEN", "Another Hugging Face server; the token, which is sent to that server alone."),
    ("NO_COLOR", "Not empty: no colour."),
    ("VISUAL, EDITOR", "The editor of 'qchat config edit' and of the app."),
)
_FILES = (
    ("~/.config/qchat/config.toml", "Your settings. 'qchat config path' tells where it is on this machine."),
    ("~/.local/share/qchat/models", "The models."),
    ("~/.local/share/qchat/sessions.db", "The chats, readable for you alone."),
    ("~/.cache/qchat", "Compiled kernels, and downloads under way."),
    ("~/.local/state/qchat/log/qchat.log", "Tracebacks of commands that failed."),
)
_EXAMPLES = (
    ('qchat ask "Name three rivers."', "One answer on standard output."),
    ('git diff | qchat ask "Review this change"', "Standard input is appended to the prompt."),
    ('qchat ask --continue "And the longest?"', "Goes on with the latest chat."),
    ("qchat ask -m work/qwen3 hello", "Asks the model qwen3 of the server work, a table of your config.toml."),
    ("qchat models pull qwen3:4b", "Fetches a model."),
    ('eval "$(qchat completion bash)"', "In ~/.bashrc: Tab completes commands, models and chats."),
)


def manual_page(cli: click.Group) -> str:
    """The whole page, for `cli` and everything under it."""
    lines = list(_page(cli))
    after_heading = {i for i, line in enumerate(lines[:-1], start=1) if line.startswith((".SH", ".SS"))}
    return "".join(f"{line}\n" for i, line in enumerate(lines) if not (line == ".P" and i in after_heading))


def _page(cli: click.Group) -> Iterator[str]:
    yield '.\\" Written by "make man" from the commands; do not edit.'
    yield f'.TH QCHAT 1 "" "qchat {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"qchat \\- {_escape('chat with local models in the terminal')}"
    yield ".SH SYNOPSIS"
    root = click.Context(cli, info_name="qchat")
    commands = list(_commands(root))
    for ctx in (root, *commands):
        yield from (".P" if ctx is root else ".br", _synopsis(ctx))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(cli)
    yield from _paragraph("Every command has -h and --help.")
    yield ".SH OPTIONS"
    yield from _options(root)
    yield ".SH COMMANDS"
    for ctx in commands:
        yield f".SS {_synopsis(ctx)[3:]}"
        yield from _paragraphs(ctx.command)
        yield from _options(ctx)
    yield ".SH EXIT STATUS"
    yield from _terms(_EXIT_CODES)
    yield from _paragraph("With --json a failure is also one document on standard output, with a member named error.")
    yield ".SH SETTINGS"
    yield from _paragraph(
        "A setting is taken from the first of these that has it: the command line, the environment, your config.toml "
        "(where 'sampling.top_p' is 'top_p' in the table [sampling]), the default."
    )
    yield from _terms(_settings())
    yield ".SH ENVIRONMENT"
    yield from _paragraph("Besides the variables of the settings:")
    yield from _terms(_VARIABLES)
    yield ".SH FILES"
    yield from _terms(_FILES)
    yield from _paragraph("Those are the places on Linux; other systems have their own.")
    yield ".SH EXAMPLES"
    yield from _terms(_EXAMPLES)


def _commands(parent: click.Context) -> Iterator[click.Context]:
    """Every command that does something itself, in the order of the help."""
    assert isinstance(parent.command, click.Group)
    for name in parent.command.list_commands(parent):
        command = parent.command.get_command(parent, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=parent)
        yield from _commands(ctx) if isinstance(command, click.Group) else [ctx]


def _synopsis(ctx: click.Context) -> str:
    arguments = [_argument(param) for param in ctx.command.params if isinstance(param, click.Argument)]
    options = [] if all(isinstance(param, click.Argument) for param in ctx.command.params) else ["[OPTIONS]"]
    return f".B {_escape(ctx.command_path)}\\fR" + "".join(f" {_escape(word)}" for word in (*options, *arguments))


def _argument(param: click.Argument) -> str:
    choices = "|".join(param.type.choices) if isinstance(param.type, click.Choice) else ""
    name = param.metavar or choices or (param.name or "").upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _options(ctx: click.Context) -> Iterator[str]:
    options = [param for param in ctx.command.params if isinstance(param, click.Option) and not param.hidden]
    yield from _terms([(_option(option, ctx), _option_help(option)) for option in options])


def _option(option: click.Option, ctx: click.Context) -> str:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        return f"{names}, {', '.join(option.secondary_opts)}"
    if option.is_flag:
        return names
    own = (
        option.type.get_metavar(option, ctx)
        if isinstance(option.type, SettingType)
        else option.type.name.upper().partition(" ")[0]
    )
    return f"{names} {option.metavar or own}"


def _option_help(option: click.Option) -> str:
    shown = f" (default: {option.default})" if option.show_default else ""
    return f"{option.help or ''}{shown}"


def _settings() -> Iterator[tuple[str, str]]:
    """Each setting with its comment in defaults.toml, and what is allowed."""
    table = ""
    comment: list[str] = []
    for line in (shipped_config_dir() / "defaults.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            comment.append(line[1:].strip())
        elif line.startswith("["):
            table, comment = f"{line.strip('[] ')}.", []
        elif "=" in line and table + (name := line.partition("=")[0].strip()) in RULES:
            key, default = table + name, line.partition("=")[2].strip()
            yield f"{key}, {variable(key)}", f"{' '.join(comment)} Allowed: {RULES[key].allowed}. Default: {default}."
            comment = []
        else:
            comment = []


def _terms(terms: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in terms:
        yield ".TP"
        yield f".B {_escape(term)}"
        yield from _sentences(text)


def _paragraphs(command: click.Command) -> Iterator[str]:
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):  # click's mark of lines that stay as they are
            yield from (".P", ".nf", *(_line(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield from _paragraph(paragraph)


def _paragraph(text: str) -> Iterator[str]:
    yield ".P"
    yield from _sentences(text)


def _sentences(text: str) -> Iterator[str]:
    """One sentence a line, so that roff puts its own space after each."""
    for sentence in re.split(r'(?<=[^A-Z][.?!]) (?=["A-Z])', " ".join(text.split())):
        yield _line(sentence)


def _line(text: str) -> str:
    escaped = _escape(text)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def _escape(text: str) -> str:
    return "".join(_SPECIAL.get(c) or (c if c.isascii() else f"\\[u{ord(c):04X}]") for c in text)


if __name__ == "__main__":
    # By name: run as a script this file is `__main__`, and importing `app.cli` at the top would be a circle of layers.
    print(manual_page(importlib.import_module("app.cli").cli), end="")
