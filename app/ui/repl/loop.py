"""The line interface itself: what is typed becomes a command or a question, until the person leaves.

Whatever ends it, the terminal gets its modes back and everything that was said is saved first: signals end the loop as
an exception, and saving comes before all other tidying up.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from app import __version__
from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.store import Store
from app.cli.terminal import is_terminal
from app.errors import QChatError, printable
from app.settings import paths
from app.ui.actions import Command, NearMiss, parse_command, slash_commands
from app.ui.history import InputHistory
from app.ui.repl.chat_commands import ChatCommands
from app.ui.repl.desk import Desk
from app.ui.repl.draft_commands import DraftCommands
from app.ui.repl.lines import LineSource
from app.ui.repl.reply_commands import ReplyCommands
from app.ui.repl.setting_commands import SettingCommands
from app.ui.repl.typed import InterruptError, Source

SAVE_S = 5.0  # how long leaving waits for what is not saved yet
TITLES_S = 0.2  # how long a prompt waits for the titles that Tab completes
CLOSE_S = 2.0  # how long it waits for a model that is being loaded or fetched

_KEYS = (
    ("Enter", "Send the message"),
    ("Ctrl-J, Alt-Enter", "Begin a new line in the message"),
    ("Tab", "Complete a command"),
    ("Up, Down, Ctrl-R", "What was typed before"),
    ("Ctrl-G", "Write the message in $EDITOR"),
    ("Ctrl-C, Escape", "Stop the reply; Ctrl-C also clears the message, and twice at an empty prompt leaves"),
    ("Ctrl-D", "Leave qchat"),
)
_LINES = (
    ("Enter", 'Send the line; between two lines of """ it begins a new one'),
    ("Ctrl-C", "Stop the reply; twice at the prompt leaves"),
    ("Ctrl-D", "Leave qchat"),
)


def run_repl(flags: Mapping[str, Any], wanted: str | None = None, plain: bool = False) -> int:
    """Chat until the person leaves; the exit code. `wanted` is the chat to open, `plain` asks for bare lines.

    Raises SettingsError for wrong settings, and whatever opening the chat raises.
    """
    return asyncio.run(_run(flags, wanted, plain))


async def _run(flags: Mapping[str, Any], wanted: str | None, plain: bool) -> int:
    repl = Repl(flags, plain)
    code = 0
    try:
        with _signals(repl) as ended_by:
            try:
                await repl.run(repl.source(), wanted)
            except asyncio.CancelledError:
                if not ended_by:
                    raise
                code = 128 + ended_by[0]
    finally:
        await repl.close()
    return code


class Repl:
    """Inside a running loop. `handlers` holds a method for every slash command, by the id of the action."""

    def __init__(self, flags: Mapping[str, Any], plain: bool) -> None:
        """`plain`: bare lines without control codes, whatever the terminal knows."""
        self._at_prompt = False
        self._saver = Saver(Store.open_default, self._notify, self._saving_changed)
        self._host = BackendHost()
        self.desk = Desk(self._saver, self._host, flags, plain)
        groups = (ChatCommands, ReplyCommands, SettingCommands, DraftCommands)
        owners = [self, *(group(self.desk) for group in groups)]
        self.handlers = {
            action.id: next(getattr(o, name) for o in owners if hasattr(o, name))
            for action in slash_commands()
            for name in (f"action_{action.id}",)
        }

    def source(self) -> Source:
        """The prompt of a terminal, or bare lines where there is none or they are asked for."""
        history = InputHistory.default()
        if self.desk.plain or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
            return LineSource(self.desk.say, history)
        from app.ui.repl.prompt import PromptSource  # noqa: PLC0415 - prompt-toolkit, only where it is used

        return PromptSource(self._notify, history)

    async def run(self, source: Source, wanted: str | None) -> None:
        """Until the person leaves or the input ends. `wanted` is the chat to open first."""
        self.desk.source = source
        if wanted is not None:
            await self.desk.open(wanted)
        elif _is_tty(sys.stdin):
            settings = self.desk.chat.settings
            model = printable(settings.named(settings.model), 300)
            self.desk.output.say(f"qchat {__version__}, {model}. /help lists the commands")
        hinted = False
        while not self.desk.leaving:
            try:
                text = await self._read(source)
            except EOFError:
                return
            except InterruptError:
                if hinted:
                    return
                hinted = True
                self._about_interrupt()
                continue
            hinted = False
            await self._take(text)

    def interrupt(self) -> None:
        """SIGINT: stop the reply, also one that is about to begin; or as Ctrl-C at the prompt."""
        if self.desk.replying:
            self.desk.stop()
        elif not (self._at_prompt and self.desk.source and self.desk.source.interrupt()):
            self.desk.interrupted = True

    async def close(self) -> None:
        """Save, tell what could not be saved, and give the model back."""
        if not await self._saver.close(SAVE_S):
            with suppress(OSError):  # the terminal may be gone
                self._rescue()
        with suppress(TimeoutError):  # the end of the process does not wait for what is being loaded
            await asyncio.wait_for(self._host.close(), CLOSE_S)

    async def action_help(self, _argument: str) -> None:
        edits = self.desk.source is not None and self.desk.source.edits
        commands = [(f"/{a.slash} {a.argument}".rstrip(), a.help) for a in slash_commands()]
        commands.append((" /…", "A space before the slash sends the text as a message"))
        self.desk.write(_columns([*(_KEYS if edits else _LINES), *commands]))

    async def action_quit(self, _argument: str) -> None:
        self.desk.leaving = True

    async def _read(self, source: Source) -> str:
        """One entry. What it is to begin with is used up."""
        draft, self.desk.draft = self.desk.draft, ""
        self.desk.interrupted = False
        self._at_prompt = True
        titles = asyncio.ensure_future(self._offer_titles(source))
        with source.while_busy(lambda: None):
            await asyncio.wait([titles], timeout=TITLES_S)
        try:
            typed = await source.read("edit> " if self.desk.editing else "> ", draft)
        finally:
            titles.cancel()
            self._at_prompt = False
        self.desk.draft = typed.draft
        return typed.text

    async def _take(self, text: str) -> None:
        desk = self.desk
        if not text.strip():
            if desk.editing:
                desk.editing = None
                desk.say("the question stays as it is")
            return
        match parse_command(text):
            case Command(action, argument):
                try:
                    await self.handlers[action.id](argument)
                except QChatError as error:
                    desk.complain(error)
                    if action.argument:
                        desk.draft = text
                finally:
                    desk.output.finish()
            case NearMiss(word, meant):
                desk.say(f"no command /{word}; did you mean /{meant}? A space before the slash sends it as a message.")
                desk.draft = text
            case None:
                await desk.send(text)

    async def _offer_titles(self, source: Source) -> None:
        """Let Tab know the chats there are now."""
        completer = getattr(source, "completer", None)
        if completer is not None:
            with suppress(QChatError):  # completion is a convenience; a command says what is wrong
                completer.titles = [one.session.title for one in await self.desk.chats.list()]

    def _about_interrupt(self) -> None:
        if self.desk.editing:
            self.desk.editing = None
            self.desk.say("the question stays as it is")
        self.desk.say("Ctrl-C again, Ctrl-D or /quit leaves")

    def _notify(self, text: str) -> None:
        if self._at_prompt and self.desk.source:
            self.desk.source.aside(lambda: self.desk.say(text))
        else:
            self.desk.say(text)

    def _saving_changed(self) -> None:
        failing = self._saver.failing
        self._notify(f"not saved, and tried again: {failing}" if failing else "everything is saved again")

    def _rescue(self) -> None:
        why = self._saver.failing or "saving takes too long"
        try:
            path = printable(str(self._saver.rescue(paths().data_dir)), 300)
        except OSError as error:
            self.desk.say(f"what was said last is lost: {why}, and no other file can be written: {error.strerror}")
        else:
            self.desk.say(f"not saved: {why}")
            self.desk.output.say(f"  it is kept in {path}; 'qchat sessions import' takes it in")


@contextmanager
def _signals(repl: Repl) -> Iterator[list[int]]:
    """SIGINT interrupts; SIGTERM and SIGHUP cancel the current task, and are then in the list."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    ended_by: list[int] = []

    def end(number: int) -> None:
        if not ended_by:
            ended_by.append(number)
            task.cancel()

    wanted: dict[int, Any] = {signal.SIGINT: lambda _: repl.interrupt(), signal.SIGTERM: end}
    if hasattr(signal, "SIGHUP"):
        wanted[signal.SIGHUP] = end
    before = {number: signal.getsignal(number) for number in wanted}
    for number in wanted:
        signal.signal(number, lambda n, _frame: loop.call_soon_threadsafe(wanted[n], n))
    try:
        yield ended_by
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_tty(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _columns(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return (f"{name:<{width}}  {text}" for name, text in rows)
