"""The app: one store, one backend at a time, the chat screen, and a terminal that is left as it was found."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.screen import Screen
from textual.widgets import Input, TextArea
from textual.worker import WorkerFailed

from app.chat.chats import Chats
from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.session import ChatSession
from app.cli.terminal import escape_controls
from app.errors import QChatError
from app.settings import Settings, load_settings, paths
from app.ui.chat_screen.screen import ChatScreen
from app.ui.ending import ending_signals, on_continue
from app.ui.keymap import for_textual, read_keymap
from app.ui.loop import telling_loop
from app.ui.output_guard import WithoutControls
from app.ui.palette import Actions
from app.ui.stderr_guard import stderr_to_log
from app.ui.themes import DARK, LIGHT, no_color_wanted, theme_named

if TYPE_CHECKING:
    from app.chat.damage import Notify
    from app.chat.store import Store

QUIT_WITHIN_S = 2.0  # the second press of ctrl+c
STOP_WITHIN_S = 2.0
SAVE_WITHIN_S = 3.0
CLOSE_WITHIN_S = 1.0  # a model that is being loaded is not waited for any longer
KEEP_DELETED_S = 30 * 24 * 3600.0  # a deleted chat can be brought back for so long
LOOK_EVERY_S = 2.0  # whether another window has written


class QChatApp(App[int]):
    """`settings` are those of this run; `session` is an id, a title or "last", None for a new chat."""

    TITLE = "qchat"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = ""
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Actions}
    BINDINGS: ClassVar[list[BindingType]] = [  # here and not in the chat screen: a dialog may be open
        Binding("ctrl+c", "interrupt", "Copy or stop", show=False, priority=True)
    ]
    CSS = "Toast { max-width: 80; }"

    def __init__(
        self,
        settings: Settings,
        *,
        flags: Mapping[str, object] | None = None,
        session: str | None = None,
        pick_model: bool = False,
        host: BackendHost | None = None,
    ) -> None:
        super().__init__(ansi_color=True if no_color_wanted() else None)
        self._filters.append(WithoutControls())
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self._begin_with_theme(theme_named(settings, self.available_themes, self.console.color_system))
        self.keymap_of_person = read_keymap(settings)
        self.set_keymap(dict(for_textual(self.keymap_of_person)))
        self._flags = dict(flags or {})
        self._session = session
        self._pick_model = pick_model
        self._host = host or BackendHost()
        self._interrupted_at = 0.0
        self._mounted = False  # there is a chat, and what is said in it is saved
        self._leaving = False
        self._put_away = False
        self.ready = False  # the chats are there
        self.bug: Exception | None = None  # what ended the app, if nobody asked for it
        self.left_unsaved = (
            ""  # where what could not be saved was put, for the person to be told after the screen is gone
        )

    def _begin_with_theme(self, name: str) -> None:
        """Set the theme while nothing is drawn yet. Set later, all styles are made twice for the first picture."""
        self.set_reactive(App.theme, name)
        theme = self.current_theme
        looks = {f"-theme-{theme.name}": True, "-dark-mode": theme.dark, "-light-mode": not theme.dark}
        self.update_classes(looks, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def get_default_screen(self) -> Screen[None]:
        """The chat screen is the first of all: one below it would be laid out and painted for nobody."""
        self.saver = Saver(_open_store, self._notice, self._saving_changed)
        self.chats = Chats(self.saver, self._host, self._flags)
        self.chat_screen = ChatScreen(self.chats, self._host, self.keymap_of_person, self.size)
        return self.chat_screen

    def on_mount(self) -> None:
        self._mounted = True
        self._looking = self.set_interval(LOOK_EVERY_S, self.chat_screen.look_for_changes)
        on_continue(self._continue)
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        """After the first picture: the chats, and the one that was asked for."""
        if not gc.isenabled():  # as who started the app had it
            gc.freeze()  # what is imported stays; looking through it would hold up a key for 50 ms now and then
            gc.enable()
        screen = self.chat_screen
        await screen.telling(screen.show_chat(await self._first_chat(screen)))
        self.ready = True
        if self._pick_model:
            await screen.action_choose_model()
        await screen.telling(self.saver.run(lambda store: store.purge(KEEP_DELETED_S)))

    async def _first_chat(self, screen: ChatScreen) -> ChatSession:
        """The chat that was asked for; a new one if none was, or if it cannot be opened."""
        if self._session:
            try:
                return await self.chats.open(self._session)
            except QChatError as error:
                screen.tell(error)
        return screen.chat

    async def action_interrupt(self) -> None:
        """ctrl+c: copy what is selected; else stop the reply; else, twice, leave."""
        screen = self.chat_screen
        field = self.focused
        selected = self.screen.get_selected_text()
        if not selected and isinstance(field, (Input, TextArea)):
            selected = field.selected_text
        if selected:
            screen.copy(selected, "text")
            self.screen.clear_selection()
        elif screen.replying:
            await screen.action_stop()
        elif time.monotonic() - self._interrupted_at < QUIT_WITHIN_S:
            await self.leave()
        else:
            self._interrupted_at = time.monotonic()
            screen.say("press ctrl+c again to leave")

    async def run_to_the_end(self) -> int:
        """Run on the terminal until a key, a signal or a bug ends it; what was said is kept by each. The exit code."""
        with ending_signals(self._end_with):
            await self.run_async()
            await self._put_everything_away()
        return self.return_code or 0

    async def leave(self, code: int = 0) -> None:
        """Stop what runs, save what is not saved, and go."""
        if self._leaving:
            return
        self._leaving = True
        try:
            await self._put_everything_away()
        finally:
            self.exit(code, return_code=code)

    async def _put_everything_away(self) -> None:
        """Once: stop the reply, save or rescue what is not saved, give the model back."""
        if self._put_away or not self._mounted:
            return
        self._put_away = True
        self._looking.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.chat_screen.stop_reply(), STOP_WITHIN_S)
        if not await self.saver.close(SAVE_WITHIN_S):
            try:
                self.left_unsaved = str(self.saver.rescue(paths().data_dir))
            except OSError as error:
                self.left_unsaved = f"nowhere: {error}"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._host.close(), CLOSE_WITHIN_S)

    def write_control(self, sequence: str) -> None:
        """Write a control sequence of ours to the terminal, such as one that sets its clipboard."""
        if self._driver is not None:
            self._driver.write(sequence)
            self._driver.flush()

    def _notice(self, text: str) -> None:
        self.notify(escape_controls(text), severity="warning", markup=False, timeout=20)

    def _saving_changed(self) -> None:
        self.chat_screen.status.change(not_saved=self.saver.failing or "")

    def _print(self, text: str, stderr: bool = False) -> None:
        """Textual's hook for what is printed while it draws; a log has it then (see stderr_guard)."""
        super()._print(text, stderr)
        if not self.is_headless:
            os.write(2, text.encode("utf-8", "replace"))

    def get_driver_class(self) -> type[Driver]:
        if os.name != "posix":
            return super().get_driver_class()
        from app.ui.driver import TerminalDriver  # noqa: PLC0415 - needs termios

        return TerminalDriver

    def terminal_gone(self) -> None:
        """Nobody is there any more. Also without the signal that should say so, as under nohup."""
        self._end_with(128 + 1)

    def _end_with(self, code: int) -> None:
        """A signal ends the app. A draft is found again with the up key."""
        if self._leaving or self._put_away:
            return
        if not self._mounted:
            self.exit(code, return_code=code)
            return
        self._keep_draft()
        asyncio.ensure_future(self.leave(code))  # noqa: RUF006 - the app ends with it

    def _continue(self) -> None:
        """The process was stopped and goes on: the terminal has the modes of the shell."""
        if self._driver is not None and self._driver.can_suspend:
            self._driver.suspend_application_mode()
            self._driver.resume_application_mode()
            self.refresh(layout=True)

    def _keep_draft(self) -> None:
        if self._mounted:
            with contextlib.suppress(NoMatches, QChatError):  # the screen may not be whole, nor the disk writable
                self.chat_screen.keep_draft()

    def _handle_exception(self, error: Exception) -> None:
        """Textual's hook for an exception that nobody caught. Who started the app tells of it, not the terminal."""
        if self.bug is None:
            self.bug = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
            self._keep_draft()
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()


def _open_store(notify: Notify) -> Store:
    from app.chat.store import Store  # noqa: PLC0415 - SQLite, opened after the first picture

    return Store.open_default(notify)


def run_app(model: str | None, pick_model: bool, session: str | None, resume_last: bool) -> int:
    """Run the app on the terminal and return its exit code.

    Raises QChatError before the screen is taken, and after it is given back for a chat that could not be saved; a bug
    that ended the app is raised too.
    """
    flags = {"model": model} if model else {}
    settings = load_settings(flags)
    wanted = "last" if resume_last else session
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # empty means not set; Textual takes it for set
    host = BackendHost()
    app = QChatApp(settings, flags=flags, session=wanted, pick_model=pick_model, host=host)
    with stderr_to_log(paths().log_dir), asyncio.Runner(loop_factory=telling_loop(host.stand_aside)) as runner:
        code = runner.run(app.run_to_the_end())
    if app.left_unsaved:
        raise QChatError(
            f"this chat could not be saved: {app.saver.failing}",
            f"it is in {app.left_unsaved}; 'qchat sessions import' brings it back",
        ) from app.bug
    if app.bug is not None:
        raise app.bug
    return code
