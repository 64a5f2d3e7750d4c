"""From the lines of POST /api/chat to the events of a reply.

Every line is one JSON object, the last has `done`. An `error` may come in place of any of them, under a status that
says all is well. A stream that ends before `done` was cut; what it brought is handed out before the error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.backends.base import Done, Event, FinishReason, Notice, Thinking, Usage
from app.backends.remote.failure import said, words_of
from app.backends.remote.server import ServerSettings
from app.backends.remote.thinking import ThinkingApart
from app.backends.remote.unopened import Unopened
from app.backends.reply_events import Emit, ReplyEvents
from app.errors import BackendError, printable
from app.templates.tool_call import CALL, END_CALL
from app.unicode import well_formed

_REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
_NANOSECONDS = 1e9


class Reply:
    """Takes the lines of one stream and emits the events of the reply. `clock` gives seconds."""

    def __init__(
        self, server: ServerSettings, stops: Sequence[str], emit: Emit, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.begun = False  # something was said
        self.complete = False  # nothing more is wanted from the server
        self._server = server
        self._emit = emit
        self._clock = clock
        self._asked_at = clock()
        self._first_s: float | None = None
        self._last: Mapping[str, Any] = {}
        self._apart, self._unopened = ThinkingApart(), Unopened()
        self._out = ReplyEvents(starts_in_thinking=False, stops=stops, emit=self._hand_out)

    def take(self, line: str) -> None:
        """The next line. Raises BackendError for an error of the server, and for a line that is no JSON object."""
        if not line.strip() or self.complete:
            return
        document = _object(line)
        if document is None:
            raise self._failure(f"no line of a reply: {words_of(line)}")
        if document.get("error"):
            raise self._failure(words_of(line))
        message = document.get("message")
        self._say(message if isinstance(message, dict) else {})
        if document.get("done") is True:
            self._last, self.complete = document, True
        self.complete = self.complete or self._out.stopped

    def flush(self) -> None:
        """Hand out what was held back."""
        thinking, answer = self._apart.flush()
        self._think(thinking)
        self._out.push(answer)
        self._out.flush()

    def end(self, rest: str) -> None:
        """The end of the stream, and of its last line. Raises BackendError if the reply has not ended."""
        if _object(rest) is not None:
            self.take(rest)
        self.flush()
        if self.complete:
            return
        name, words = self._server.name, said(self._server, words_of(rest))
        if self.begun:
            raise BackendError(f"{name} broke off in the middle of the reply", "what came is kept; try again")
        if words:
            raise BackendError(f"{name} sent no reply but {words}", "is the server's url right?")
        raise BackendError(f"{name} ended the connection without a reply", "the server's own log may say why")

    def done(self) -> Done:
        """The last event, after whatever a person should know about the end."""
        for notice in self._unopened.notices(self._server):
            self._emit(notice)
        word = self._last.get("done_reason") or "stop"  # old servers give no reason, and none where we left
        if word not in _REASONS:
            self._emit(Notice(f"{self._server.name} ended the reply for a reason of its own: {printable(str(word))}"))
        prefill_s, decode_s = self._seconds("prompt_eval_duration"), self._seconds("eval_duration")
        usage = Usage(
            prompt_tokens=self._count("prompt_eval_count"),
            generated_tokens=self._count("eval_count"),
            prefill_s=prefill_s,
            decode_s=decode_s,
            first_token_s=self._first_s,
        )
        return Done(_REASONS.get(str(word), "stop"), usage)

    def _say(self, message: Mapping[str, Any]) -> None:
        thinking, content, calls = (message.get(name) for name in ("thinking", "content", "tool_calls"))
        if not (thinking or content or calls):
            return
        if not self.begun:
            self.begun, self._first_s = True, self._clock() - self._asked_at
        if isinstance(thinking, str):
            self._think(self._apart.think(well_formed(thinking)))
        if isinstance(content, str):
            self._out.push(self._apart.answer(well_formed(content)))
        for call in calls if isinstance(calls, list) else ():
            self._apart.called()
            self._out.push(_written(call))

    def _hand_out(self, event: Event) -> None:
        self._unopened.see(event)
        self._emit(event)

    def _think(self, text: str) -> None:
        if text:
            self._out.send([Thinking(text)])

    def _failure(self, words: str) -> BackendError:
        what = said(self._server, words) or "an error without a message"
        if not self.begun:
            return BackendError(f"{self._server.name} reported: {what}", "its own log may say more")
        return BackendError(f"{self._server.name} broke off with: {what}", "what came before is kept; try again")

    def _count(self, name: str) -> int | None:
        value = self._last.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    def _seconds(self, name: str) -> float | None:
        count = self._count(name)
        return None if count is None else count / _NANOSECONDS


def _written(call: Any) -> str:
    """A call as a model would have written it: reading that again shows whether it is one."""
    function = call.get("function") if isinstance(call, dict) else None
    function = function if isinstance(function, dict) else {}
    fields = {"name": function.get("name"), "arguments": function.get("arguments", {})}
    return f"{CALL}\n{well_formed(json.dumps(fields, ensure_ascii=False))}\n{END_CALL}"


def _object(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
