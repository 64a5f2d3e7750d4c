"""The commands about the last reply: another one, its branches, copying it, and how it came about."""

from __future__ import annotations

import sys

from app.chat.conversation import Message
from app.cli.terminal import is_terminal
from app.errors import UsageError
from app.ui.clipboard import copy_text
from app.ui.plain import statistics_of
from app.ui.repl.desk import Desk
from app.ui.repl.show import branch, thought, transcript


class ReplyCommands:
    """A method for each action, named for it; each gets what follows the slash command."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def action_regenerate(self, _argument: str) -> None:
        reply = self._reply()
        await self._desk.answer(lambda show: self._desk.chat.regenerate(reply.id, show))
        leaf = self._desk.path[-1].id
        self._desk.say(branch(self._desk.chat.conversation, leaf))

    async def action_edit(self, _argument: str) -> None:
        question = self._desk.last("user")
        if question is None:
            raise UsageError("there is no question yet to ask again")
        self._desk.editing = question.id
        self._desk.draft = question.content
        if self._desk.source and not self._desk.source.edits:
            self._desk.write([question.content])
        self._desk.say("the next message takes the place of this question; an empty one leaves it as it is")

    async def action_previous_branch(self, _argument: str) -> None:
        await self._switch(-1, "this is the first branch")

    async def action_next_branch(self, _argument: str) -> None:
        await self._switch(1, "this is the last branch")

    async def action_thinking(self, _argument: str) -> None:
        desk = self._desk
        desk.show_thinking = not desk.show_thinking
        desk.say(f"thinking is {'shown' if desk.show_thinking else 'hidden'} from now on")
        reply = desk.last("assistant")
        if desk.show_thinking and reply and reply.thinking.strip():
            timing = reply.timing
            desk.write([reply.thinking.strip("\n")])
            desk.say(thought(timing.get("thinking_s", 0.0), int(timing.get("thinking_tokens", 0))))

    async def action_copy(self, _argument: str) -> None:
        self._copy(self._reply().content)

    async def action_copy_code(self, _argument: str) -> None:
        for message in reversed(self._desk.path):
            if message.role == "assistant" and (code := _last_code(message.content)) is not None:
                self._copy(code)
                return
        raise UsageError("there is no block of code in this chat")

    async def action_stats(self, _argument: str) -> None:
        timing, backend = self._reply().timing, self._desk.host.current
        measured = timing if "first_token_s" in timing else {}  # a reply that was stopped has a part of it
        text = statistics_of(measured, backend.facts if backend else {})
        self._desk.write(text.splitlines() if text else ["nothing was measured of this reply"])

    async def action_show_prompt(self, _argument: str) -> None:
        """The text that the last question became, with the control tokens, which no person can type, in brackets."""
        desk = self._desk
        try:
            pieces = await desk.chat.prompt(desk.output.show)
        finally:
            desk.output.finish()
        desk.write("".join(f"⟦{piece.text}⟧" if piece.control else piece.text for piece in pieces).split("\n"))
        desk.say("⟦ and ⟧ stand around control tokens and are not part of the prompt")

    def _reply(self) -> Message:
        reply = self._desk.last("assistant")
        if reply is None:
            raise UsageError("there is no reply yet")
        return reply

    def _copy(self, text: str) -> None:
        by_terminal = is_terminal(sys.stdout) and not self._desk.plain
        self._desk.say(copy_text(text, _to_terminal if by_terminal else None).said)

    async def _switch(self, step: int, at_end: str) -> None:
        """Turn to the branch before or after, where the path branched last; another window may have added some."""
        chat = self._desk.chat
        session_id = chat.session.id
        chat.reload(await self._desk.saver.run(lambda store: store.messages(session_id)))
        conversation = chat.conversation
        here = next((m.id for m in reversed(self._desk.path) if len(conversation.siblings(m.id)) > 1), None)
        if here is None:
            raise UsageError("this chat has one branch", "/regenerate and /edit add others")
        if not chat.switch(here, step):
            raise UsageError(f"{at_end} ({branch(conversation, here)})")
        siblings = conversation.siblings(here)
        self._desk.write(transcript(conversation, siblings[siblings.index(here) + step]))


def _last_code(markdown: str) -> str | None:
    """The last block of code in `markdown`, without its fences."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - for one command

    blocks = [token.content for token in MarkdownIt().parse(markdown) if token.type in ("fence", "code_block")]
    return blocks[-1] if blocks else None


def _to_terminal(sequence: str) -> None:
    assert sys.stdout is not None
    sys.stdout.write(sequence)
    sys.stdout.flush()
