"""The prompt on a terminal: editing over several lines, history, completion and pastes of any size.

The keyboard is read without a gap, also while a reply is written: what is typed then waits for the next prompt, a paste
loses nothing to the terminal's line buffer, and Ctrl-C stops the reply. No colours are used and nothing pops up.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.shortcuts import CompleteStyle

from app.errors import QChatError
from app.ui.history import InputHistory
from app.ui.repl.completion import CommandCompleter
from app.ui.repl.paste import PasteGuard
from app.ui.repl.typed import InterruptError, Typed, as_typed

ESCAPE_S = 0.5  # an Escape that nothing follows for so long is the key itself


class PromptSource:
    """Implements `Source` on standard input and output, which have to be a terminal."""

    edits = True

    def __init__(self, say: Callable[[str], None], history: InputHistory) -> None:
        self.completer = CommandCompleter()
        self._input, self._output = _terminal()
        self._session: PromptSession[Typed] = PromptSession(
            input=self._input,
            output=self._output,
            history=_KeptHistory(history, say),
            completer=self.completer,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_keys(),
            color_depth=ColorDepth.DEPTH_1_BIT,
            enable_suspend=True,
            interrupt_exception=InterruptError,
            include_default_pygments_style=False,
        )

    async def read(self, prompt: str, draft: str = "") -> Typed:
        typed = await self._session.prompt_async(prompt, default=draft, handle_sigint=False)
        if isinstance(typed, str):
            return Typed(as_typed(typed))
        return Typed(typed.text, as_typed(typed.draft))

    def interrupt(self) -> bool:
        app = self._session.app
        if app.is_done or not app.is_running:
            return False
        app.key_processor.feed(KeyPress(Keys.ControlC), first=True)
        app.key_processor.process_keys()
        return True

    def aside(self, write: Callable[[], None]) -> None:
        app = self._session.app
        if app.is_running:
            with set_app(app):
                run_in_terminal(write)
        else:
            write()

    @contextmanager
    def while_busy(self, stop: Callable[[], None]) -> Iterator[None]:
        kept: list[KeyPress] = []
        loop = asyncio.get_running_loop()
        escape: asyncio.TimerHandle | None = None

        def take(keys: Sequence[KeyPress]) -> None:
            for press in keys:
                if press.key in (Keys.ControlC, Keys.Escape):
                    stop()
                else:
                    kept.append(press)

        def read() -> None:
            nonlocal escape
            take(self._input.read_keys())
            if escape:
                escape.cancel()
            escape = loop.call_later(ESCAPE_S, lambda: take(self._input.flush_keys()))
            if self._input.closed:
                stop()

        with self._input.raw_mode(), self._input.attach(read):
            self._output.enable_bracketed_paste()
            self._output.flush()
            try:
                yield
            finally:
                if escape:
                    escape.cancel()
                self._output.disable_bracketed_paste()
                self._output.flush()
                store_typeahead(self._input, kept)


class _KeptHistory(History):
    """The shared history file as prompt-toolkit wants it. That it cannot be used is said once."""

    def __init__(self, history: InputHistory, say: Callable[[str], None]) -> None:
        super().__init__()
        self._history: InputHistory | None = history
        self._say = say

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(reversed(self._history.entries())) if self._history else ()
        except QChatError as error:
            self._give_up(error)
            return ()

    def store_string(self, string: str) -> None:
        try:
            if self._history:
                self._history.add(as_typed(string))
        except QChatError as error:
            self._give_up(error)

    def _give_up(self, error: QChatError) -> None:
        self._history = None
        self._say(error.message)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def clear_or_interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=InterruptError())

    @keys.add("c-g")
    def editor(event: KeyPressEvent) -> None:
        event.app.exit(result=Typed("/editor", event.current_buffer.text))

    return keys


if sys.platform == "win32":

    def _terminal() -> tuple[Input, Output]:
        from prompt_toolkit.input import create_input  # noqa: PLC0415 - Windows only
        from prompt_toolkit.output import create_output  # noqa: PLC0415

        return create_input(), create_output()  # its console recognises a paste by itself
else:
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.output.vt100 import Vt100_Output

    if TYPE_CHECKING:
        from typing import TextIO

    class _GuardedInput(Vt100Input):
        """The keyboard, with the keys of an unmarked paste as pasted text."""

        def __init__(self, stdin: TextIO) -> None:
            super().__init__(stdin)
            self._guard = PasteGuard()

        def read_keys(self) -> list[KeyPress]:
            return self._guard.sift(super().read_keys())

    def _terminal() -> tuple[Input, Output]:
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"), enable_bell=False)
        output.enable_cpr = False  # nothing here needs to know where the cursor is, and not every terminal answers
        return _GuardedInput(sys.stdin), output
