"""What is done with whole chats: new, open, search, rename, delete, export, their model and settings."""

from __future__ import annotations

from app.chat.chat_settings import CHAT_SETTINGS, read_change
from app.chat.chats import export
from app.chat.session import ChatSession
from app.cli.terminal import escape_controls
from app.errors import QChatError, UsageError
from app.settings import LOCAL, load_settings
from app.ui.chat_screen.messages import Messages
from app.ui.names import shown_model
from app.ui.widgets.session_list import SessionList


class Sessions(Messages):
    """Actions on this chat, on another one, and on the list."""

    async def action_new_chat(self) -> None:
        await self._leave_for(self.chats.new())

    async def action_sessions(self) -> None:
        """Show the chats and go there; from there, hide them."""
        if self.has_class("with-chats") and (self.session_list.has_focus or self.focused is None):
            self.remove_class("with-chats")
            self.composer.focus()
        else:
            self.add_class("with-chats")
            self.session_list.focus()

    async def on_session_list_opened(self, event: SessionList.Opened) -> None:
        await self.telling(self.open_chat(event.session_id))

    async def open_chat(self, wanted: str) -> None:
        """Open a chat by id, title or "last". Raises QChatError."""
        if wanted != self.chat.session.id:
            await self._leave_for(await self.chats.open(wanted))

    async def command_open_chat(self, wanted: str) -> None:
        if not wanted:
            raise UsageError("/open needs the id or the title of a chat", "ctrl+b shows the chats")
        await self.open_chat(wanted)

    async def action_search(self) -> None:
        await self.command_search("")

    async def command_search(self, query: str) -> None:
        self.run_worker(self._search(query), group="dialog", exclusive=True)

    async def action_rename(self) -> None:
        self.run_worker(self._rename(self.chat), group="dialog", exclusive=True)

    async def command_rename(self, title: str) -> None:
        if title:
            self.chat.rename(title)
            await self.refresh_chats()
        else:
            await self.action_rename()

    async def action_delete(self) -> None:
        await self._delete(self.chat.session.id)

    async def action_undo_delete(self) -> None:
        await self.telling(self._undo_delete())

    async def action_export(self) -> None:
        await self.telling(self.command_export(""))

    async def command_export(self, file: str) -> None:
        """Raises UsageError."""
        self._export(self.chat, file)

    async def action_choose_model(self) -> None:
        self.run_worker(self._choose_model(), group="dialog", exclusive=True)

    async def command_choose_model(self, name: str) -> None:
        """Raises ModelNotFoundError for a name that the engine has no file of."""
        if name:
            wanted = self.chat.settings_with({"model": name})
            if wanted.backend == LOCAL:
                from app.hub import library_of_this_machine  # noqa: PLC0415 - not needed for the first picture

                library_of_this_machine().find(wanted.model)
            self.use_model(name)
        else:
            await self.action_choose_model()

    async def action_settings(self) -> None:
        self.run_worker(self._settings(), group="dialog", exclusive=True)

    async def command_set(self, text: str) -> None:
        name, _, value = text.partition(" ")
        self._change(name, value)

    async def command_system(self, text: str) -> None:
        self._change("system", text)

    async def command_think(self, text: str) -> None:
        self._change("thinking", text or "model")

    # The list

    async def action_chat_open(self) -> None:
        self.session_list.action_select()

    async def action_chat_rename(self) -> None:
        if chat := await self._listed():
            self.run_worker(self._rename(chat), group="dialog", exclusive=True)

    async def action_chat_delete(self) -> None:
        if session_id := self.session_list.selected_id:
            await self._delete(session_id)

    async def action_chat_undo(self) -> None:
        await self.telling(self._undo_delete())

    async def action_chat_export(self) -> None:
        if chat := await self._listed():
            try:
                self._export(chat, "")
            except UsageError as error:
                self.tell(error)

    async def _listed(self) -> ChatSession | None:
        """The chat under the cursor; the one that is shown is the same object."""
        session_id = self.session_list.selected_id
        if session_id is None or session_id == self.chat.session.id:
            return self.chat if session_id else None
        try:
            return await self.chats.open(session_id)
        except QChatError as error:
            self.tell(error)
            return None

    # How they are done

    async def _leave_for(self, chat: ChatSession) -> None:
        """Show another chat; a reply that is being written is stopped, and what was said of it stays there."""
        if self.replying:
            await self.stop_reply()
            self.say("the reply in the other chat was stopped; what was said of it is kept")
        await self.show_chat(chat)

    async def _delete(self, session_id: str) -> None:
        if session_id == self.chat.session.id:
            if not self.chat.conversation:
                self.say("this chat is empty, so there is nothing to delete", warning=True)
                return
            await self._leave_for(self.chats.new())
        await self.telling(self.chats.delete(session_id))
        await self.telling(self.refresh_chats())
        self.say("deleted; /undo brings it back (u in the list)")

    async def _undo_delete(self) -> None:
        session_id = await self.chats.undo_delete()
        if session_id is None:
            self.say("no chat was deleted here", warning=True)
        else:
            await self._leave_for(await self.chats.open(session_id))

    async def _rename(self, chat: ChatSession) -> None:
        from app.ui.screens.dialog import AskText  # noqa: PLC0415 - a dialog, not needed for the first picture

        title = await self.app.push_screen_wait(AskText("Rename this chat", chat.session.title))
        if title is None:
            return
        try:
            chat.rename(title)
        except UsageError as error:
            self.tell(error)
        await self.telling(self.refresh_chats())

    def _export(self, chat: ChatSession, file: str) -> None:
        """Raises UsageError."""
        self.say(escape_controls(f"written to {export(chat, file)}"))

    async def _search(self, query: str) -> None:
        from app.ui.screens.search import SearchScreen  # noqa: PLC0415 - a dialog, not needed for the first picture

        hit = await self.app.push_screen_wait(SearchScreen(self.chats, query))
        if hit is None:
            return
        await self.telling(self.open_chat(hit.session_id))
        if hit.message_id and hit.message_id in self.chat.conversation:
            if hit.message_id not in {message.id for message in self.chat.conversation.path()}:
                self.chat.look_at(hit.message_id)
                await self.show_path()
            if view := await self.conversation.go_to(hit.message_id):
                view.focus()

    async def _choose_model(self) -> None:
        from app.hub import library_of_this_machine  # noqa: PLC0415 - as the dialog
        from app.ui.screens.picker.screen import PickerScreen  # noqa: PLC0415 - a dialog, not needed for the first picture

        settings = self.chat.settings
        current, in_use, held = self.host.current, "", 0
        if current:
            in_use = f"{current.name}/{current.model}" if current.name in settings.servers else current.model
            held = current.facts.get("resident_bytes", 0)
        picker = PickerScreen(library_of_this_machine(), settings, in_use=in_use, held=held)
        name = await self.app.push_screen_wait(picker)
        if name is not None:
            self.use_model(name)

    def use_model(self, name: str) -> None:
        """Answer with this model from the next question on."""
        self.chat.change_settings({"model": name})
        settings = self.chat.settings
        self.status.change(model=shown_model(settings.named(settings.model)), context_used=None, context_size=None)
        self.show_welcome(not self.chat.conversation)

    async def _settings(self) -> None:
        from app.ui.screens.settings import SettingsScreen  # noqa: PLC0415 - a dialog, not needed for the first picture

        inherited = dict(load_settings().items())
        own = dict(self.chat.session.settings)
        changes = await self.app.push_screen_wait(SettingsScreen(own, {key: inherited[key] for key in CHAT_SETTINGS}))
        if changes:
            self.chat.change_settings(changes)
            self.say("changed; the next reply uses it")

    def _change(self, name: str, text: str) -> None:
        """Raises UsageError."""
        self.chat.change_settings(read_change(name, text))
        self.say(f"{name} of this chat is changed; the next reply uses it")
