"""The options that `ask`, `prompt` and `bench` share: one spelling, one range check, one way into the settings.

Ranges come from the setting's own rule, so a value that config.toml refuses is refused here too, as a usage error and
before any model is opened. An option that was not given is None and leaves the setting to the environment and files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from app.cli import suggest
from app.errors import UsageError
from app.settings import OWN, RULES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Command = Callable[..., Any]


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """A click type that accepts what the rule of one setting accepts."""

    def __init__(self, key: str, metavar: str) -> None:
        self.key = key
        self.name = metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            parsed = RULES[self.key].parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is not allowed: it must be {error}", param, ctx)
        return OWN if parsed is None else parsed  # None would read as "not given"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        if self.key == "model":
            return suggest.models(ctx, param, incomplete)
        if self.key == "backend":
            return suggest.backends(ctx, param, incomplete)
        return suggest.values(self.key, incomplete)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "|".join(RULES[self.key].choices) or self.name


class _Option(click.Option):
    """An option bound to the setting `key`."""

    def __init__(self, *args: Any, key: str, **kwargs: Any) -> None:
        self.key = key
        super().__init__(*args, **kwargs)


def _setting(key: str, *names: str, metavar: str, help: str) -> Callable[[_Command], _Command]:
    return click.option(*names, cls=_Option, key=key, type=SettingType(key, metavar), default=None, help=help)


def _think(command: _Command) -> _Command:
    text = "Let the model think first, or not, where its template offers the choice."
    return click.option("--think/--no-think", "thinking", cls=_Option, key="thinking", default=None, help=text)(command)


def _speculate(command: _Command) -> _Command:
    text = "Guess tokens and check several in one step, where that is faster; the answers are the same."
    return click.option("--spec/--no-spec", "speculation", cls=_Option, key="speculation", default=None, help=text)(
        command
    )


_MODEL = _setting(
    "model", "-m", "--model", metavar="MODEL", help="Catalogue name, file in the models folder, path, or SERVER/MODEL."
)

_SAMPLING = (
    _setting("sampling.temperature", "--temp", "temperature", metavar="NUMBER", help="0: the likeliest token."),
    _setting("sampling.top_k", "--top-k", metavar="COUNT", help="Only the COUNT likeliest tokens; 0: off."),
    _setting("sampling.top_p", "--top-p", metavar="SHARE", help="Only the likeliest, up to this probability; 1: off."),
    _setting("sampling.min_p", "--min-p", metavar="SHARE", help="Only this likely relative to the best; 0: off."),
    _setting("sampling.repeat_penalty", "--repeat-penalty", metavar="FACTOR", help="Of recent tokens; 1: off."),
    _setting("sampling.presence_penalty", "--presence-penalty", metavar="NUMBER", help="-2 to 2; 0: off."),
    _setting("sampling.frequency_penalty", "--frequency-penalty", metavar="NUMBER", help="-2 to 2; 0: off."),
    _setting("sampling.seed", "--seed", metavar="NUMBER", help="Makes the draws repeatable."),
    _setting("max_tokens", "--max-tokens", metavar="COUNT", help="At most; -1: to the end of the context."),
    click.option(
        "--stop", metavar="TEXT", multiple=True, help="End the reply before TEXT; may be given more than once."
    ),
)

_ENGINE = (
    _setting("ctx", "--ctx", "n_ctx", metavar="TOKENS", help="Context length; 0: the model's own."),
    _setting("kv", "--kv", metavar="FORMAT", help="Number format of the KV cache."),
    _setting("threads", "--threads", metavar="COUNT", help="0: one for each physical core."),
    _speculate,
    _setting("device", "--device", metavar="DEVICE", help="Where the network runs."),
    _setting("lm_head", "--lm-head", metavar="FORMAT", help="Requantise the head: faster, other answers."),
)

_CHAT = (
    _setting("backend", "--backend", metavar="NAME", help="Where answers come from: local, a server, a plugin."),
    _setting("system", "--system", metavar="TEXT", help="The system message."),
    _think,
)


def model_option(command: _Command) -> _Command:
    """-m/--model."""
    return _MODEL(command)


def session_options(command: _Command) -> _Command:
    """--session and --continue, as `session` and `resume_last`; see `chosen_chat`."""
    command = click.option("--continue", "resume_last", is_flag=True, help="Go on with the latest chat.")(command)
    return click.option(
        "--session", metavar="CHAT", shell_complete=suggest.chats_or_new, help="Go on with a chat; new: begin one."
    )(command)


def chosen_chat(session: str | None, resume_last: bool) -> str | None:
    """Which chat the options name: an id, a beginning of one, a title, "last" or "new"; None for none."""
    if session is not None and resume_last:
        raise UsageError("--session and --continue each name a chat: give one of them")
    return "last" if resume_last else session


def chat_options(command: _Command) -> _Command:
    """--backend, --system, --think/--no-think."""
    return _apply(_CHAT, command)


def sampling_options(command: _Command) -> _Command:
    """--temp, --top-k, --top-p, --min-p, the penalties, --seed, --max-tokens, --stop."""
    return _apply(_SAMPLING, command)


def engine_options(command: _Command) -> _Command:
    """--ctx, --kv, --threads, --spec/--no-spec, --device, --lm-head."""
    return _apply(_ENGINE, command)


def setting_flags(ctx: click.Context) -> Mapping[str, Any]:
    """What the command line set, by setting key: the argument of `load_settings`. `--stop` is no setting."""
    flags = {}
    for option in ctx.command.params:
        if isinstance(option, _Option) and option.name is not None:
            flags[option.key] = ctx.params[option.name]
    if isinstance(flags.get("thinking"), bool):
        flags["thinking"] = "on" if flags["thinking"] else "off"
    return {key: value for key, value in flags.items() if value is not None}


def _apply(options: tuple[Callable[[_Command], _Command], ...], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command
