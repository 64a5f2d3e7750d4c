"""The chat screen as a whole, with the actions that concern the program itself."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import ActiveBinding, BindingType

from app.errors import QChatError
from app.ui.chat_screen.sessions import Sessions
from app.ui.keymap import UNBOUND, bindings


class ChatScreen(Sessions):
    """Everything that `actions.ACTIONS` lists is done here, as `action_<id>` or, with an argument, `command_<id>`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("anywhere")

    _changes: int | None = None  # the store's own count, when it was looked at last
    _cannot_look = ""  # why the last look failed

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What the footer shows: not what has no key."""
        return {key: binding for key, binding in super().active_bindings.items() if key != UNBOUND}

    async def action_help(self) -> None:
        from app.ui.screens.help import help_screen  # noqa: PLC0415 - a dialog, not needed for the first picture

        self.app.push_screen(help_screen(self._keymap))

    async def action_palette(self) -> None:
        self.app.action_command_palette()

    async def action_quit(self) -> None:
        await self.qchat.leave()

    async def look_for_changes(self) -> None:
        """Take in what another window or the command line has written. That it cannot be read is told once."""
        if self.qchat.saver.failing or self.replying:
            return
        try:
            await self._take_in_changes()
        except QChatError as error:
            if error.message != self._cannot_look:
                self.tell(error)
            self._cannot_look = error.message
        else:
            self._cannot_look = ""

    async def _take_in_changes(self) -> None:
        saver = self.qchat.saver
        changes = await saver.run(lambda store: store.changes())
        if changes == self._changes:
            return
        first = self._changes is None
        self._changes = changes
        if first:
            return
        session_id = self.chat.session.id
        self.chat.reload(await saver.run(lambda store: store.messages(session_id)))
        await self.refresh_chats()
