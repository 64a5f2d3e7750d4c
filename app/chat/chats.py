"""All chats of this person, for a front end: open one, begin one, delete and bring back, search, write to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.chat.host import BackendHost
from app.chat.saver import Saver
from app.chat.session import ChatSession
from app.errors import UsageError, printable

if TYPE_CHECKING:
    from app.chat.search import SearchHit
    from app.chat.store import SessionSummary, Store

EXPORT_SUFFIXES = (".md", ".json")


class Chats:
    """The chats of one store, answered by one host. `flags` are settings of this run, by dotted key."""

    def __init__(self, saver: Saver, host: BackendHost, flags: Mapping[str, Any] | None = None) -> None:
        self._saver = saver
        self._host = host
        self._flags = dict(flags or {})

    def new(self, settings: Mapping[str, Any] | None = None) -> ChatSession:
        """A chat without messages; it enters the list with its first question."""
        return ChatSession(self._saver, self._host, settings=settings, flags=self._flags)

    async def list(self) -> Sequence[SessionSummary]:
        """The chats, the latest first."""
        return await self._saver.run(lambda store: store.sessions())

    async def open(self, wanted: str) -> ChatSession:
        """The chat that an id, how one begins, a title or "last" means. Raises SessionNotFoundError, UsageError."""
        session, messages = await self._saver.run(
            lambda store: (found := store.session(wanted), store.messages(found.id))
        )
        return ChatSession(self._saver, self._host, session, messages, flags=self._flags)

    async def search(self, query: str) -> Sequence[SearchHit]:
        """Where the words of `query` stand, titles first."""
        return await self._saver.run(lambda store: store.search(query))

    async def delete(self, session_id: str) -> None:
        """Take a chat out of the list; `undo_delete` brings it back."""
        await self._saver.run(lambda store: store.delete(session_id))

    async def undo_delete(self) -> str | None:
        """Bring back the chat that was deleted last, in whichever run, and return its id; None if there is none."""

        def undo(store: Store) -> str | None:
            session_id = store.last_deleted()
            if session_id is not None:
                store.undelete(session_id)
            return session_id

        return await self._saver.run(undo)


def export(chat: ChatSession, file: str = "", *, thinking: bool = False) -> Path:
    """Write the path that is looked at as Markdown, or the whole tree as .json, and return where.

    Without `file` the name comes from the title, in the working directory. Nothing is overwritten. Raises UsageError.
    """
    from app.chat.export import (  # noqa: PLC0415 - nothing to write, nothing to import
        safe_file_name,
        to_json,
        to_markdown,
        write_new,
        write_private,
    )

    suffix = Path(file).suffix.lower() if file else ".md"
    if suffix not in EXPORT_SUFFIXES:
        raise UsageError(f"cannot tell the format of {printable(file)}", "end the name in .md or .json")
    conversation = chat.conversation
    if suffix == ".json":
        text = to_json([(chat.session, conversation.messages())])
    else:
        text = to_markdown(chat.session, conversation.path(), thinking)
    try:
        if not file:
            stem = safe_file_name(chat.session.title, "")
            return write_new(Path.cwd(), stem, suffix, text)
        path = Path(file).expanduser().absolute()
        write_private(path, text)
    except FileExistsError:
        raise UsageError(f"{printable(file)} exists already", "choose another name; nothing was overwritten") from None
    except OSError as error:
        raise UsageError(f"cannot write {printable(file or str(Path.cwd()))}: {error.strerror}") from error
    return path
