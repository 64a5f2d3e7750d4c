"""The app: one store, one backend at a time, the chat screen, and a terminal that is left as it was found."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.command import Provider

from app.chat.chats import Chats
from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.store import Store
from app.cli.terminal import escape_controls
from app.errors import QChatError
from app.settings import Settings, load_settings, paths
from app.ui.chat_screen.screen import ChatScreen
from app.ui.keymap import read_keymap
from app.ui.palette import Actions
from app.ui.stderr_guard import stderr_to_log
from app.ui.themes import DARK, LIGHT, theme_named

QUIT_WITHIN_S = 2.0  # the second press of ctrl+c
SAVE_WITHIN_S = 3.0
LOOK_EVERY_S = 2.0  # whether another window has written


class QChatApp(App[int]):
    """`settings` are those of this run; `session` is an id, a title or "last", None for a new chat."""

    TITLE = "qchat"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = ""
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Actions}
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = """
    Footer { background: $background; }
    Toast { max-width: 80; }
    """

    def __init__(
        self,
        settings: Settings,
        *,
        flags: Mapping[str, object] | None = None,
        session: str | None = None,
        pick_model: bool = False,
        host: BackendHost | None = None,
    ) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = theme_named(settings, self.available_themes)
        self.keymap_of_person = read_keymap(settings)
        self.set_keymap(dict(self.keymap_of_person))
        self._flags = dict(flags or {})
        self._session = session
        self._pick_model = pick_model
        self._host = host or BackendHost()
        self._interrupted_at = 0.0
        self._leaving = False
        self.ready = False  # the chats are there
        self.left_unsaved = (
            ""  # where what could not be saved was put, for the person to be told after the screen is gone
        )

    async def on_mount(self) -> None:
        self.saver = Saver(Store.open_default, self._notice, self._saving_changed)
        self.chats = Chats(self.saver, self._host, self._flags)
        self.chat_screen = ChatScreen(self.chats, self._host, self.keymap_of_person)
        await self.push_screen(self.chat_screen)
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self._ended_from_outside)
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        """After the first picture: the chats, and the one that was asked for."""
        screen = self.chat_screen
        await screen.telling(screen.refresh_chats())
        await screen.telling(self._open_first(screen))
        self._looking = self.set_interval(LOOK_EVERY_S, screen.look_for_changes)
        self.ready = True
        if self._pick_model:
            await screen.action_choose_model()

    async def _open_first(self, screen: ChatScreen) -> None:
        chat = await self.chats.open(self._session) if self._session else screen.chat
        await screen.show_chat(chat)

    async def action_interrupt(self) -> None:
        """ctrl+c: copy what is selected; else stop the reply; else, twice, leave."""
        screen = self.chat_screen
        selected = self.screen.get_selected_text() or screen.composer.selected_text
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

    async def leave(self) -> None:
        """Stop what runs, save what is not saved, and go."""
        if self._leaving:
            return
        self._leaving = True
        self._looking.stop()
        await self.chat_screen.stop_reply()
        if not await self.saver.close(SAVE_WITHIN_S):
            try:
                self.left_unsaved = str(self.saver.rescue(paths().data_dir))
            except OSError as error:
                self.left_unsaved = f"nowhere: {error}"
        await self._host.close()
        self.exit(0)

    def write_control(self, sequence: str) -> None:
        """Write a control sequence of ours to the terminal, such as one that sets its clipboard."""
        if self._driver is not None:
            self._driver.write(sequence)
            self._driver.flush()

    def _notice(self, text: str) -> None:
        self.notify(escape_controls(text), severity="warning", markup=False, timeout=20)

    def _saving_changed(self) -> None:
        self.chat_screen.status.change(not_saved=self.saver.failing or "")

    def _ended_from_outside(self) -> None:
        asyncio.ensure_future(self.leave())  # noqa: RUF006 - the app ends with it


def run_app(model: str | None, pick_model: bool, session: str | None, resume_last: bool) -> int:
    """Run the app on the terminal and return its exit code. Raises QChatError before the screen is taken."""
    flags = {"model": model} if model else {}
    settings = load_settings(flags)
    wanted = "last" if resume_last else session
    app = QChatApp(settings, flags=flags, session=wanted, pick_model=pick_model)
    os.environ.setdefault("ESCDELAY", "25")  # milliseconds that a lone escape waits to be one
    with stderr_to_log(paths().log_dir):
        code = app.run()
    if app.left_unsaved:
        raise QChatError(
            f"this chat could not be saved: {app.saver.failing}",
            f"it is in {app.left_unsaved}; 'qchat sessions import' brings it back",
        )
    return code or 0
