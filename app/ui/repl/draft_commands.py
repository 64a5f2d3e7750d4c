"""The commands about the message that is being written."""

from __future__ import annotations

import asyncio

from app.errors import UsageError
from app.ui.attachment import read_attachment
from app.ui.editor import edit_text
from app.ui.repl.desk import Desk


class DraftCommands:
    """A method for each action, named for it; each gets what follows the slash command."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def action_attach(self, argument: str) -> None:
        if not argument:
            raise UsageError("attach which file?", "/attach and the path of a text file")
        attachment = read_attachment(argument)
        self._desk.attached.append(attachment.block)
        self._desk.say(f"attached {attachment.said}; it goes with the next message")

    async def action_editor(self, _argument: str) -> None:
        """The text comes back to the prompt; where there is none to come back to, it is sent."""
        desk = self._desk
        draft, desk.draft = desk.draft, ""
        try:
            text = await asyncio.to_thread(edit_text, draft)
        except UsageError:
            desk.draft = draft
            raise
        assert desk.source is not None
        if desk.source.edits:
            desk.draft = text
        elif text.strip():
            await desk.send(text)
        else:
            desk.say("nothing was written, so nothing is sent")
