"""Asking and answering: one reply runs at a time, in a task of the event loop, and stops when the task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from app.chat.conversation import Message
from app.chat.session import Show
from app.cli.terminal import escape_controls
from app.errors import QChatError
from app.ui.actions import Command, NearMiss, parse_command
from app.ui.chat_screen.view import ChatView
from app.ui.history import InputHistory
from app.ui.names import shown_model
from app.ui.reply_feed import DRAW_EVERY_S, ReplyFeed, context_used
from app.ui.widgets.composer import Composer

Reply = Callable[[Show], Awaitable[Message]]


class Replies(ChatView):
    """The composer sends; a reply is drawn while it is written."""

    _reply_task: asyncio.Task[None] | None = None
    _edited_id: str | None = None  # the question that the draft is to replace

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._history = InputHistory.default()

    def on_mount(self) -> None:
        self._read_history()

    @property
    def replying(self) -> bool:
        """Whether a reply is being written."""
        return self._reply_task is not None

    async def on_composer_sent(self, event: Composer.Sent) -> None:
        match parse_command(event.text):
            case Command(action, argument):
                self.composer.take_out(event.text)
                self._remember(event.text)
                try:
                    await self.run_command(action.id, argument)
                except QChatError as error:
                    self.tell(error)
                    if action.argument and not self.composer.text:  # something new may be written by now
                        self.composer.set_text(event.text)
            case NearMiss(word, meant):
                self.say(f"no command /{word}; did you mean /{meant}? A space before the slash sends it", warning=True)
            case None if event.text.strip():
                self._send(event.text)

    async def run_command(self, action_id: str, argument: str) -> None:
        """Do what a slash command says. Raises QChatError."""
        with_argument = getattr(self, f"command_{action_id}", None)
        if with_argument is not None:
            await with_argument(argument)
        else:
            await self.run_action(f"screen.{action_id}")

    def start_reply(self, reply: Reply) -> bool:
        """Have a reply written, unless one is being written."""
        if self._reply_task is not None:
            self.say("a reply is being written; Esc stops it", warning=True)
            return False
        self._reply_task = asyncio.create_task(self._reply(reply))
        self.status.change(activity="waiting", speculation="")
        return True

    async def stop_reply(self) -> None:
        """Stop the reply and wait until what was said is kept."""
        if self._reply_task is not None:
            self._reply_task.cancel()
            await asyncio.wait([self._reply_task])

    async def action_stop(self) -> None:
        """Stop the reply; without one, go back to writing, and from an edit back to a new message."""
        if self._reply_task is not None:
            self.status.change(activity="stopping")
            self._reply_task.cancel()
        elif self._edited_id:
            self._end_edit()
            self.composer.set_text("")
        self.composer.focus()

    def begin_edit(self, question: Message) -> None:
        """Put an earlier question into the composer; sending asks it anew in its place."""
        self._edited_id = question.id
        self.composer.set_text(question.content)
        self.composer.border_title = "edit the question; Esc leaves it as it is"
        self.composer.focus()

    def keep_draft(self) -> None:
        """Put what is being written where the up key finds it. Raises QChatError."""
        self._history.add(self.composer.text)

    def _send(self, text: str) -> None:
        edited = self._edited_id
        chat = self.chat
        started = self.start_reply(
            (lambda show: chat.edit(edited, text, show)) if edited else (lambda show: chat.ask(text, show))
        )
        if started:
            self._end_edit()
            self.composer.take_out(text)
            self._remember(text)

    def _remember(self, text: str) -> None:
        """Let the up key bring `text` back."""
        try:
            self._history.add(text)
        except QChatError as error:
            self.tell(error)
        self._read_history()

    def _end_edit(self) -> None:
        self._edited_id = None
        self.composer.border_title = ""

    def _read_history(self) -> None:
        try:
            self.composer.set_history(self._history.entries())
        except QChatError as error:
            self.tell(error)

    async def _reply(self, reply: Reply) -> None:
        """Have a reply written and draw it. The screen may show another chat by the time it ends."""
        await asyncio.sleep(0)  # Textual has tasks begin at once where Python can: first this one is to be known
        feed = ReplyFeed(self.conversation, self.status, self._added)
        drawing = self.set_interval(DRAW_EVERY_S, feed.draw)
        message = None
        try:
            message = await reply(feed.take)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # a bug, perhaps of a plugin; the reply itself says that it failed
            from app.cli.log import record_traceback  # noqa: PLC0415 - nothing to log, nothing to import

            self.say(escape_controls(f"unexpected {type(error).__name__}; see {record_traceback(error)}"), warning=True)
        finally:
            drawing.stop()
            try:
                if self.is_running:  # the app may have gone meanwhile, as after a bug
                    await feed.draw()
                    if message:
                        self._tell_context(message)
                    await self.telling(self.refresh_chats())
            finally:
                self._reply_task = None  # not before its end is on the screen
                if self.is_running:
                    self.status.change(activity="")  # who sees this can ask again

    async def _added(self, message: Message) -> None:
        self.show_welcome(False)
        if message.role == "assistant":
            self.status.change(model=shown_model(message.model), activity="waiting")
        else:
            await self.telling(self.refresh_chats())  # a first question has just made the chat one of them

    def _tell_context(self, reply: Message) -> None:
        backend = self.host.current
        size = backend.facts.get("ctx") if backend else None
        self.status.change(model=shown_model(reply.model), context_used=context_used(reply), context_size=size)
