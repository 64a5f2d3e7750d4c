"""One question answered at the end of a saved chat: `qchat ask --session` and `--continue`.

The model is opened before the chat is touched, so that a model that is not there leaves no question without a reply.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from app.backends.base import Backend, Done
from app.backends.registry import open_backend
from app.chat.conversation import Message, Session
from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.session import Added, Change, ChatSession, Finished
from app.chat.store import Store
from app.chat.turn import Reply
from app.cli.answer import EXIT_FAILED, EXIT_INTERRUPTED, INTERRUPTED, Error, Say, no_answer, reply_document
from app.cli.log import keep_log
from app.cli.terminal import write_json
from app.errors import QChatError, SessionNotFoundError, printable
from app.settings import load_settings, paths
from app.ui.plain import PlainOutput, statistics

NEW, LAST = "new", "last"
SAVE_WITHIN_S = 5.0  # then what is not saved goes to a file of its own
_KEPT = ("system", "thinking", "max_tokens", "sampling.")  # settings that a chat takes over when it is begun


def answer_in_chat(
    wanted: str, read: Callable[[Say], str], flags: Mapping[str, Any], as_json: bool, stats: bool
) -> int:
    """Answer the question that `read` gives in the chat `wanted`, see `Store.session`, and return the exit code."""
    output = PlainOutput(show_answer=not as_json)
    asked = None
    try:
        session, messages = _find(wanted, output.say)
        settings = load_settings(session.settings if session else None, flags)
        keep_log()
        output = PlainOutput(show_answer=not as_json, show_thinking=settings.show_thinking)
        text = read(output.say)
        backend = open_backend(settings, output.show)
        asked = _Question(session, messages, flags, backend, output)
        asyncio.run(asked.run(text))
    except KeyboardInterrupt:
        output.finish()
        output.say("qchat: interrupted")
        if as_json:
            write_json((asked.document() if asked else {}) | {"error": INTERRUPTED})
        return EXIT_INTERRUPTED
    finally:
        with contextlib.suppress(BrokenPipeError):  # met before, or not worth a word now that the reply is over
            output.finish()
    if stats:
        output.say(statistics(asked.reply, backend.facts))
    error = asked.not_saved or no_answer(asked.reply)
    if as_json:
        write_json(asked.document() | ({"error": error} if error else {}))
    return EXIT_FAILED if error else 0


def _find(wanted: str, say: Say) -> tuple[Session | None, list[Message]]:
    if wanted == NEW:
        return None, []
    store = Store.open_default(lambda text: say(f"qchat: {text}"))
    try:
        session = store.session(wanted)
        return session, store.messages(session.id)
    except SessionNotFoundError:
        if wanted != LAST:
            raise
        raise SessionNotFoundError("there is no chat to continue", "'qchat ask --session new' begins one") from None
    finally:
        store.close()


class _Question:
    """Asks, shows and saves. What was said stays readable however it ends."""

    def __init__(
        self,
        session: Session | None,
        messages: list[Message],
        flags: Mapping[str, Any],
        backend: Backend,
        output: PlainOutput,
    ) -> None:
        self.reply = Reply()
        self.not_saved: Error | None = None
        self._session = session
        self._messages = messages
        self._flags = {key: value for key, value in flags.items() if value is not None}
        self._backend = backend
        self._output = output
        self._chat: ChatSession | None = None
        self._done: Done | None = None
        self._failure: QChatError | OSError | None = None
        self._asking: asyncio.Task[Message] | None = None

    async def run(self, text: str) -> None:
        """Raises what ended the reply, after it is saved: a QChatError, or OSError where stdout cannot be written."""
        saver = Saver(Store.open_default, lambda text: self._output.say(f"qchat: {text}"))
        host = BackendHost(lambda _settings, _report: self._backend)
        kept = {key: value for key, value in self._flags.items() if key.startswith(_KEPT)}
        self._chat = chat = ChatSession(saver, host, self._session, self._messages, settings=kept, flags=self._flags)
        if self._session is None:
            self._output.say(f"qchat: this is chat {chat.session.id}")
        try:
            self._asking = asyncio.ensure_future(chat.ask(text, self._show))
            await self._asking
        except asyncio.CancelledError:
            if self._failure is None:  # Ctrl-C
                raise
        finally:
            await host.close()
            if not await saver.close(SAVE_WITHIN_S):
                self._rescue(saver)
        if self._failure:
            raise self._failure

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        if self._chat is None:
            return {}
        settings = self._chat.settings
        return {"session": self._chat.session.id, **reply_document(self.reply, self._backend.model, settings.backend)}

    def _show(self, change: Change) -> None:
        match change:
            case Added():
                return
            case Finished(message, error):
                self.reply = _reply(message, self._done)
                self._failure = self._failure or error
                return
            case Done():
                self._done = change
        if self._failure is None:
            try:
                self._output.show(change)
            except OSError as error:  # a closed pipe, a full disk: no failure of the model's, and the text is kept
                self._failure = error
                assert self._asking is not None
                self._asking.cancel()

    def _rescue(self, saver: Saver) -> None:
        why = saver.failing or "the file is busy"
        message, hint = f"the chat is not saved: {why}", "and what was said could not be written to any other file"
        with contextlib.suppress(OSError):
            kept_in = printable(str(saver.rescue(paths().data_dir)), 300)
            hint = f"what was said is in {kept_in}; 'qchat sessions import' takes it into the chats"
        self._output.say(f"qchat: {message}\n  {hint}")
        self.not_saved = {"type": "StoreError", "message": message, "hint": hint}


def _reply(message: Message, done: Done | None) -> Reply:
    return Reply(
        message.thinking,
        message.content,
        message.tool_calls,
        message.notices,
        message.state,  # type: ignore[arg-type]  # one that has ended is never "streaming" or "interrupted"
        done.usage if done else None,
        done.prompt_ids if done else (),
        done.answer_ids if done else (),
    )
