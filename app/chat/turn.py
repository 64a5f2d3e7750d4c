"""One question to one finished reply.

A turn gathers what a backend's events say and passes each on to whoever shows it. What was said so far stays readable
when the turn is cancelled or fails, so that no front end has to keep a second record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from app.backends.base import (
    Answer,
    Backend,
    ChatRequest,
    Done,
    Event,
    FinishReason,
    Notice,
    Thinking,
    ToolCall,
    Usage,
)


@dataclass(frozen=True)
class Reply:
    """A reply, or as much of one as there is. `finish_reason` is None while it runs."""

    thinking: str = ""
    answer: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    notices: tuple[str, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    prompt_ids: Sequence[int] = ()
    answer_ids: Sequence[int] = ()

    @property
    def cut_off_without_answer(self) -> bool:
        """Whether the token limit came before anything that a person asked for."""
        return self.finish_reason == "length" and not self.answer and not self.tool_calls


class Turn:
    """Runs once. `reply` is what has been said so far, at any time and however the turn ends."""

    def __init__(self, backend: Backend, request: ChatRequest, on_event: Callable[[Event], None]) -> None:
        self.reply = Reply()
        self.backend = backend
        self._request = request
        self._on_event = on_event

    async def run(self) -> Reply:
        """The finished reply. Cancelling stops the backend; so does an error out of `on_event`, which is raised."""
        try:
            async with aclosing(self.backend.chat(self._request)) as events:
                async for event in events:
                    self._take(event)
        except asyncio.CancelledError:
            self.reply = replace(self.reply, finish_reason="cancelled")
            raise
        except BaseException:
            self.reply = replace(self.reply, finish_reason="error")
            raise
        if notice := _about_the_end(self.reply):
            self._take(notice)
        return self.reply

    def _take(self, event: Event) -> None:
        reply = self.reply
        match event:
            case Thinking(text):
                self.reply = replace(reply, thinking=reply.thinking + text)
            case Answer(text):
                self.reply = replace(reply, answer=reply.answer + text)
            case ToolCall():
                self.reply = replace(reply, tool_calls=(*reply.tool_calls, event))
            case Notice(text):
                self.reply = replace(reply, notices=(*reply.notices, text))
            case Done(reason, usage, prompt_ids, answer_ids):
                self.reply = replace(
                    reply, finish_reason=reason, usage=usage, prompt_ids=prompt_ids, answer_ids=answer_ids
                )
        self._on_event(event)


def _about_the_end(reply: Reply) -> Notice | None:
    """What a person should know about how the reply ended, if anything."""
    generated = reply.usage.generated_tokens if reply.usage else None
    tokens = "the limit" if generated is None else f"{generated:,} tokens"
    nothing = not reply.answer and not reply.tool_calls
    if reply.finish_reason == "length":
        if nothing and reply.thinking:
            return Notice(f"no answer: the reply ended at {tokens}, still thinking (--max-tokens, --no-think)")
        return Notice(f"{'no answer: ' if nothing else ''}the reply was cut off at {tokens} (--max-tokens, --ctx)")
    return Notice("the model's reply is empty") if nothing else None
