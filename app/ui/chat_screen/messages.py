"""What is done with messages: select, copy, edit, regenerate, fork, branches, thinking, scrolling."""

from __future__ import annotations

from textual.content import Content

from app.chat.conversation import Message
from app.cli.terminal import escape_controls
from app.errors import UsageError
from app.ui.chat_screen.replies import Replies
from app.ui.widgets.message import MessageView


class Messages(Replies):
    """Actions on the selected message, or on the last one."""

    _thinking_open = False

    # The selected message

    async def action_message_copy(self) -> None:
        if view := self._selected():
            self.copy(self.chat.conversation[view.message_id].content, "text")

    async def action_message_code(self) -> None:
        if view := self._selected():
            self.copy(view.code, "block of code")

    async def action_message_edit(self) -> None:
        if view := self._selected():
            self._edit(self.chat.conversation[view.message_id])

    async def action_message_regenerate(self) -> None:
        if view := self._selected():
            self._regenerate(self.chat.conversation[view.message_id])

    async def action_message_fork(self) -> None:
        if view := self._selected():
            await self._fork(view.message_id)

    async def action_message_previous(self) -> None:
        if view := self._selected():
            await self._switch(view.message_id, -1)

    async def action_message_next(self) -> None:
        if view := self._selected():
            await self._switch(view.message_id, +1)

    async def action_message_toggle(self) -> None:
        if view := self._selected():
            view.toggle()

    async def action_message_up(self) -> None:
        self._select_beside(-1)

    async def action_message_down(self) -> None:
        self._select_beside(+1)

    # The last ones

    async def action_copy(self) -> None:
        replies = [message for message in self.chat.conversation.path() if message.role == "assistant"]
        self.copy(replies[-1].content if replies else None, "reply")

    async def action_copy_code(self) -> None:
        codes = [view.code for view in self.conversation.views if view.code]
        self.copy(codes[-1] if codes else None, "block of code")

    async def action_edit(self) -> None:
        questions = [message for message in self.chat.conversation.path() if message.role == "user"]
        if questions:
            self._edit(questions[-1])
        else:
            self.say("there is no question yet", warning=True)

    async def action_regenerate(self) -> None:
        path = self.chat.conversation.path()
        if path:
            self._regenerate(path[-1])
        else:
            self.say("there is no reply yet", warning=True)

    async def action_fork(self) -> None:
        if leaf := self.chat.conversation.leaf_id:
            await self._fork(leaf)
        else:
            self.say("there is nothing to fork yet", warning=True)

    async def action_previous_branch(self) -> None:
        await self._switch_last(-1)

    async def action_next_branch(self) -> None:
        await self._switch_last(+1)

    async def action_stats(self) -> None:
        from app.ui.plain import statistics_of  # noqa: PLC0415 - not needed for the first picture

        replies = [message for message in self.chat.conversation.path() if message.role == "assistant"]
        backend = self.host.current
        if not replies:
            self.say("there is no reply yet", warning=True)
        else:
            self._show_text("Statistics", statistics_of(replies[-1].timing, backend.facts if backend else {}))

    async def action_show_prompt(self) -> None:
        if self.replying:
            self.say("a reply is being written; Esc stops it", warning=True)
        else:
            self.run_worker(self.telling(self._show_prompt()), group="dialog", exclusive=True)

    # Thinking and scrolling

    async def action_thinking(self) -> None:
        self._thinking_open = not self._thinking_open
        self.conversation.open_thinking(self._thinking_open)

    async def action_chat_page_up(self) -> None:
        self.conversation.scroll_page_up(animate=False)

    async def action_chat_page_down(self) -> None:
        self.conversation.scroll_page_down(animate=False)

    async def action_first_message(self) -> None:
        await self.conversation.go_to_start()

    async def action_last_message(self) -> None:
        await self.conversation.go_to_end()

    # The draft

    async def command_attach(self, file: str) -> None:
        """Put a text file into the draft. Raises UsageError."""
        from app.ui.attachment import read_attachment  # noqa: PLC0415 - not needed for the first picture

        if not file:
            raise UsageError("/attach needs the name of a file")
        attachment = read_attachment(file.strip("'\""))
        draft = self.composer.text
        self.composer.set_text(
            f"{draft.rstrip()}\n\n{attachment.block}\n" if draft.strip() else f"{attachment.block}\n"
        )
        self.say(f"attached {attachment.said}")

    async def action_editor(self) -> None:
        from app.ui.editor import edit_text  # noqa: PLC0415 - not needed for the first picture

        with self.app.suspend():
            try:
                text = edit_text(self.composer.text)
            except UsageError as error:
                self.tell(error)
                return
        self.composer.set_text(text)

    def _selected(self) -> MessageView | None:
        focused = self.focused
        return focused if isinstance(focused, MessageView) else None

    def _select_beside(self, step: int) -> None:
        views = self.conversation.views
        if not views:
            return
        selected = self._selected()
        place = views.index(selected) + step if selected in views else len(views) - 1
        if place >= len(views):
            self.composer.focus()
        else:
            self.conversation.release_anchor()
            self.set_focus(views[max(place, 0)])  # at once: the next key may be here already

    async def _show_prompt(self) -> None:
        """The prompt with its control tokens in another colour: no person can type those. Raises QChatError."""
        self.status.change(activity="making the prompt")
        try:
            pieces = await self.chat.prompt(lambda _: None)
        finally:
            self.status.change(activity="")
        styles = ((escape_controls(piece.text), "$text-accent bold" if piece.control else "") for piece in pieces)
        self._show_text("The prompt of the last question", Content.assemble(*styles))

    def _show_text(self, title: str, text: str | Content) -> None:
        from app.ui.screens.dialog import ShowText  # noqa: PLC0415 - a dialog, not needed for the first picture

        self.app.push_screen(ShowText(title, text))

    def _edit(self, message: Message) -> None:
        conversation = self.chat.conversation
        question = message if message.role == "user" else conversation[message.parent_id or ""]
        self.begin_edit(question)

    def _regenerate(self, message: Message) -> None:
        chat = self.chat
        if message.role == "user":
            self.start_reply(lambda show: chat.answer(message.id, show))
        else:
            self.start_reply(lambda show: chat.regenerate(message.id, show))

    async def _fork(self, message_id: str) -> None:
        if self.replying:
            self.say("a reply is being written; Esc stops it", warning=True)
            return
        await self.show_chat(self.chat.fork(message_id))
        self.say("a new chat that begins as the other one did")

    async def _switch_last(self, step: int) -> None:
        conversation = self.chat.conversation
        branching = [m.id for m in conversation.path() if len(conversation.siblings(m.id)) > 1]
        if branching:
            await self._switch(branching[-1], step)
        else:
            self.say("this chat has no branches yet; editing or regenerating makes one", warning=True)

    async def _switch(self, message_id: str, step: int) -> None:
        if self.replying:
            self.say("a reply is being written; Esc stops it", warning=True)
            return
        place = self.chat.conversation.siblings(message_id).index(message_id)
        if not self.chat.switch(message_id, step):
            self.say("there is no other branch on that side", warning=True)
            return
        selected = self._selected() is not None
        await self.show_path()
        shown = self.conversation.view(self.chat.conversation.siblings(message_id)[place + step])
        if shown and selected:
            shown.focus()
