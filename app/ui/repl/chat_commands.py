"""The commands about whole chats: which there are, opening, naming, deleting and exporting them."""

from __future__ import annotations

import time

from app.chat.chats import export
from app.chat.text import well_formed
from app.cli.table import print_table
from app.errors import UsageError, printable
from app.ui.repl.desk import Desk


class ChatCommands:
    """A method for each action, named for it; each gets what follows the slash command."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def action_new_chat(self, _argument: str) -> None:
        self._desk.begin()
        self._desk.say("a new chat")

    async def action_sessions(self, _argument: str) -> None:
        found = await self._desk.chats.list()
        here = self._desk.chat.session.id
        rows = [
            (
                "*" if one.session.id == here else "",
                one.session.id,
                _when(one.session.updated),
                f"{one.messages:,}",
                one.session.title or "(no title)",
            )
            for one in found
        ]
        if rows:
            print_table(("", "ID", "WHEN", "MESSAGES", "TITLE"), rows)
        else:
            self._desk.say("no chats yet")

    async def action_open_chat(self, argument: str) -> None:
        if not argument:
            raise UsageError("which chat?", "/open and an id or a title; /sessions lists them")
        await self._desk.open(well_formed(argument))

    async def action_search(self, argument: str) -> None:
        if not argument:
            raise UsageError("search for what?", "/search and some words")
        hits = await self._desk.chats.search(argument)
        if hits:
            rows = [(hit.session_id, _when(hit.created), hit.role or "title", hit.snippet) for hit in hits]
            print_table(("ID", "WHEN", "WHO", "TEXT"), rows)
        else:
            self._desk.say("nothing found")

    async def action_rename(self, argument: str) -> None:
        """Without a title the present one is put before the person, where that is possible."""
        desk = self._desk
        self._need_messages()
        if not argument and desk.source and desk.source.edits:
            desk.draft = f"/rename {desk.chat.session.title}"
            return
        desk.chat.rename(argument)
        desk.say(f"this is {desk.name}")

    async def action_delete(self, _argument: str) -> None:
        self._need_messages()
        name = self._desk.name
        await self._desk.chats.delete(self._desk.chat.session.id)
        self._desk.begin()
        self._desk.say(f"deleted {name}; /undo brings it back. This is a new chat")

    async def action_undo_delete(self, _argument: str) -> None:
        session_id = await self._desk.chats.undo_delete()
        if session_id is None:
            raise UsageError("no chat was deleted here")
        await self._desk.open(session_id)

    async def action_fork(self, _argument: str) -> None:
        self._need_messages()
        before = self._desk.name
        self._desk.take(self._desk.chat.fork(self._desk.path[-1].id))
        self._desk.say(f"this is {self._desk.name}, which begins as {before} does")

    async def action_export(self, argument: str) -> None:
        self._need_messages()
        path = export(self._desk.chat, well_formed(argument))
        self._desk.say(f"written to {printable(str(path), 300)}")

    def _need_messages(self) -> None:
        if not self._desk.path:
            raise UsageError("nothing has been said in this chat yet")


def _when(seconds: float) -> str:
    """Local time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
