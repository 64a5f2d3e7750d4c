"""What the commands share: the chat that is open, the next message as far as it is prepared, and ways to speak."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from app.chat.chats import Chats
from app.chat.conversation import Message
from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.session import ChatSession, Show
from app.cli.log import record_traceback
from app.cli.terminal import escape_controls
from app.errors import QChatError
from app.ui.plain import PlainOutput
from app.ui.repl.show import ReplyView, transcript
from app.ui.repl.typed import Source

_KEPT = ("system", "thinking", "max_tokens", "sampling.")  # options of this run that a chat begun in it keeps


class Desk:
    """One for the whole run.

    chat             the chat that is open
    draft            what the next prompt begins with
    attached         blocks of text that go with the next message
    editing          the question that the next message takes the place of
    show_thinking    whether the thinking of a reply is shown as it comes
    leaving          the person wants to quit
    interrupted      Ctrl-C came since the last prompt, before there was a reply to stop
    """

    def __init__(self, saver: Saver, host: BackendHost, flags: Mapping[str, Any], plain: bool) -> None:
        """`plain`: no control codes, whatever the terminal knows."""
        self.saver = saver
        self.host = host
        self.source: Source | None = None  # set before anything is read
        self.output = PlainOutput(show_thinking=True, draw=not plain)  # whether to show it is decided for each reply
        self.plain = plain
        self.draft = ""
        self.attached: list[str] = []
        self.editing: str | None = None
        self.leaving = False
        self.interrupted = False
        self.chats = Chats(saver, host, flags)
        self._kept = {key: value for key, value in flags.items() if key.startswith(_KEPT)}
        self.chat = self.chats.new(self._kept)
        self.show_thinking = self.chat.settings.show_thinking
        self._reply: asyncio.Task[Message] | None = None
        self._stopping = False

    # Speaking

    def say(self, text: str) -> None:
        """A line about the program, on stderr."""
        self.output.say(f"qchat: {text}")

    def complain(self, error: QChatError) -> None:
        """An error and what to do about it."""
        self.say(error.message)
        if error.hint:
            self.output.say(f"  {error.hint}")

    def write(self, lines: Iterable[str]) -> None:
        """Lines that were asked for, on stdout."""
        if sys.stdout is not None:
            for line in lines:
                sys.stdout.write(escape_controls(line) + "\n")
            sys.stdout.flush()

    # The chat

    @property
    def path(self) -> Sequence[Message]:
        """The messages that are being looked at."""
        return self.chat.conversation.path()

    def last(self, role: str) -> Message | None:
        """The last question ("user") or reply ("assistant") of the path."""
        return next((message for message in reversed(self.path) if message.role == role), None)

    @property
    def name(self) -> str:
        """The chat as messages call it."""
        return f"{self.chat.session.title or '(no title)'} ({self.chat.session.id})"

    def begin(self) -> None:
        """A new chat, which is kept from its first question on."""
        self.take(self.chats.new(self._kept))

    def take(self, chat: ChatSession) -> None:
        """Turn to `chat`."""
        self.chat = chat
        self.editing = None

    async def open(self, wanted: str) -> None:
        """Turn to a chat, see `Store.session`, and show it."""
        self.take(await self.chats.open(wanted))
        self.write(transcript(self.chat.conversation))
        self.say(f"this is {self.name}")

    # Replies

    async def send(self, text: str) -> None:
        """Ask `text`, with what is attached, at the end of the chat or in the place of the question that is edited."""
        text = "\n\n".join([text, *self.attached])
        edited, self.editing, self.attached = self.editing, None, []
        if edited is None:
            await self.answer(lambda show: self.chat.ask(text, show))
        else:
            await self.answer(lambda show: self.chat.edit(edited, text, show))

    async def answer(self, begin: Callable[[Show], Awaitable[Message]]) -> None:
        """Show a reply as it comes, until it ends or is stopped."""
        assert self.source is not None
        view = ReplyView(self.output, self.show_thinking)
        self._stopping = False
        self._reply = asyncio.ensure_future(begin(view.show))
        if self.interrupted:
            asyncio.get_running_loop().call_soon(self.stop)  # the question itself is kept first
        try:
            with self.source.while_busy(self.stop):
                await self._reply
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stopping or (task is not None and task.cancelling()):
                raise
        except BrokenPipeError:
            raise
        except Exception as error:  # a bug ends the reply and not the chat
            record_traceback(error)
            self.say(f"unexpected {type(error).__name__}; the log file has the details")
        finally:
            self._reply = None

    @property
    def replying(self) -> bool:
        """Whether a reply is being written."""
        return self._reply is not None

    def stop(self) -> None:
        """Stop the reply that is being written, if one is."""
        if (
            self._reply is not None and not self._stopping
        ):  # once: a second cancel would not wait until the engine rests
            self._stopping = True
            self._reply.cancel()
