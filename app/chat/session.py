"""A chat that someone is in: its questions, its replies as they come, and its branches.

The app, the REPL and `ask --session` all go through `ChatSession`, so a chat behaves the same in each. Everything that
changes is handed to the saver at once, and a reply while it streams, so nothing that was seen is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.backends.base import ChatRequest, Event, PromptPiece
from app.chat.conversation import Conversation, Message, Session, new_message, new_session
from app.chat.growing_reply import GrowingReply
from app.chat.host import BackendHost, Report
from app.chat.request import request_messages
from app.chat.saver import Saver
from app.chat.text import well_formed
from app.chat.title import title_of
from app.errors import QChatError, UsageError, printable
from app.settings import Settings, load_settings, name_backend


@dataclass(frozen=True)
class Added:
    """A message was put at the end of the path."""

    message: Message


@dataclass(frozen=True)
class Finished:
    """The reply is whole, or will not become so: its `state` says which. `error` is what ended it, if one did."""

    message: Message
    error: QChatError | None = None


Change = Added | Finished | Event
Show = Callable[[Change], None]


class ChatSession:
    """One chat. One reply is written at a time; to stop it, cancel the task that waits for it."""

    def __init__(
        self,
        saver: Saver,
        host: BackendHost,
        session: Session | None = None,
        messages: Sequence[Message] = (),
        *,
        settings: Mapping[str, Any] | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> None:
        """Without `session` it is a new chat with `settings`.

        `flags`: settings of this run, by dotted key; they come before those of the chat and are not kept in it.
        """
        self.session = session or new_session(settings)
        self.conversation = Conversation(messages, self.session.leaf_id)
        self._saver = saver
        self._host = host
        self._flags = dict(flags or {})
        self._kept = session is not None  # a chat enters the list with its first question, or with a title

    @property
    def settings(self) -> Settings:
        """Every setting as this chat has it: flag, then the chat's own, then environment, file and default."""
        return load_settings(self.session.settings, self._flags)

    def settings_with(self, changes: Mapping[str, Any]) -> Settings:
        """What `settings` would be after `change_settings`. Raises SettingsError."""
        changes = self._with_backend(changes)
        return load_settings(_merged(self.session.settings, changes), _without(self._flags, changes))

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Set settings of this chat; None gives one back to the environment and files. Raises SettingsError.

        A model is kept with the backend that it belongs to: that of NAME/MODEL, or else the present one.
        """
        self.settings_with(changes)
        changes = self._with_backend(changes)
        self._flags = _without(self._flags, changes)
        self._change(settings=_merged(self.session.settings, changes))

    def rename(self, title: str) -> None:
        """Give the chat a title, in one line. Raises UsageError for an empty one."""
        title = " ".join(well_formed(title).split())
        if not title:
            raise UsageError("a title needs at least one letter")
        self._kept = True
        self._change(title=title, titled_by_person=True)

    async def ask(self, text: str, show: Show) -> Message:
        """Put a question at the end of the path and answer it. Returns the reply, however it ended.

        Cancelling keeps what was said; so does a QChatError, which is shown in the reply's notices and not raised.
        """
        return await self._ask(self.conversation.leaf_id, text, show)

    async def edit(self, message_id: str, text: str, show: Show) -> Message:
        """Ask `text` in the place of an earlier question, as a branch beside it."""
        return await self._ask(self.conversation[message_id].parent_id, text, show)

    async def regenerate(self, reply_id: str, show: Show) -> Message:
        """Another reply to the same question, as a branch beside `reply_id`."""
        question_id = self.conversation[reply_id].parent_id
        assert question_id is not None  # a reply always answers something
        return await self.answer(question_id, show)

    async def answer(self, question_id: str, show: Show) -> Message:
        """A reply to a question that is there already."""
        self.conversation.leaf_id = question_id
        return await self._answer(question_id, show)

    def look_at(self, message_id: str) -> None:
        """Look at the branch that `message_id` is on."""
        self.conversation.go_to(message_id)
        self._change(leaf_id=self.conversation.leaf_id)

    async def prompt(self, report: Report) -> Sequence[PromptPiece]:
        """The exact prompt that the last question becomes.

        Opens the backend, and so raises what that raises; UsageError if there is no question, or if the backend does
        not know the prompt of its model.
        """
        questions = [message.id for message in self.conversation.path() if message.role == "user"]
        if not questions:
            raise UsageError("there is no question yet, so no prompt")
        settings = self.settings
        backend = await self._host.get(settings, report)
        pieces = await backend.prompt(self._request(settings, questions[-1]))
        if not pieces:
            raise UsageError(f"the backend {printable(backend.name)} does not know the prompt of its model")
        return pieces

    def switch(self, message_id: str, step: int) -> bool:
        """Look at the branch `step` places after (before, if negative) that of `message_id`; False if there is none."""
        siblings = self.conversation.siblings(message_id)
        place = siblings.index(message_id) + step
        if not 0 <= place < len(siblings):
            return False
        self.look_at(siblings[place])
        return True

    def fork(self, message_id: str) -> ChatSession:
        """A new chat that begins with this one's path up to `message_id`."""
        forked = ChatSession(self._saver, self._host, flags=self._flags)
        parent_id = None
        for message in self.conversation.path_to(message_id):
            copied = replace(message, id=new_message(None, message.role, "").id, parent_id=parent_id)
            forked.conversation.put(copied)
            parent_id = copied.id
        forked.conversation.leaf_id = parent_id
        forked._kept = True
        forked._change(title=self.session.title, settings=self.session.settings, leaf_id=parent_id)
        for message in forked.conversation.path():
            self._saver.put_message(forked.session.id, message)
        return forked

    def reload(self, messages: Sequence[Message]) -> None:
        """Take in what another window has added; the path stays what it is."""
        for message in messages:
            self.conversation.put(message)

    async def _ask(self, parent_id: str | None, text: str, show: Show) -> Message:
        question = new_message(parent_id, "user", well_formed(text))
        self._kept = True
        if "model" not in self.session.settings:
            self._pin_model()
        if not self.session.title:
            self._change(title=title_of(question.content))
        self._add(question, show)
        return await self._answer(question.id, show)

    async def _answer(self, question_id: str, show: Show) -> Message:
        settings = self.settings
        reply = new_message(question_id, "assistant", "", state="streaming", model=settings.named(settings.model))
        writing = GrowingReply(reply, show)
        failure = None
        self._add(reply, show)
        saving = asyncio.ensure_future(writing.save_as_it_grows(self._put))
        try:
            backend = await self._host.get(settings, show)
            request = self._request(settings, question_id)
            await writing.run(backend, request, settings.named(backend.model))
        except asyncio.CancelledError:
            writing.end("cancelled")
            raise
        except QChatError as error:
            failure = error
            writing.end("error", error.message, *([error.hint] if error.hint else []))
        except BaseException as error:
            writing.end("error", f"unexpected {type(error).__name__}")
            raise
        finally:
            saving.cancel()
            self._put(writing.message)
            show(Finished(writing.message, failure))
        return writing.message

    def _request(self, settings: Settings, question_id: str) -> ChatRequest:
        return ChatRequest(
            messages=request_messages(settings.system, self.conversation.path_to(question_id)),
            sampling=settings.sampling,
            max_tokens=settings.max_tokens,
            thinking=settings.thinking,
        )

    def _pin_model(self) -> None:
        """The chat stays with the model that it began with, whatever the default becomes."""
        settings = self.settings
        self._change(settings={**self.session.settings, "model": settings.model, "backend": settings.backend})

    def _with_backend(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        if changes.get("model") is None:
            return changes
        now = self.settings
        return {"backend": now.backend, **name_backend(changes, now.servers)}

    def _add(self, message: Message, show: Show) -> None:
        self._put(message)
        self.conversation.leaf_id = message.id
        self._change(leaf_id=message.id, updated=message.created)
        show(Added(message))

    def _put(self, message: Message) -> None:
        self.conversation.put(message)
        self._saver.put_message(self.session.id, message)

    def _change(self, **changes: Any) -> None:
        self.session = replace(self.session, **changes)
        if self._kept:
            self._saver.put_session(self.session)


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**settings, **changes}.items() if value is not None}


def _without(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in changes}
