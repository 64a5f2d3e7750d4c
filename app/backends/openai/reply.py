"""From the events of a stream to the events of a reply: what was said, how it ended, and what it took.

A reply has ended when the server gave a reason or said [DONE]; a stream that stops before is one that was cut, whatever
the connection says. What arrived is handed out either way, before the error.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.backends.base import Done, Event, FinishReason, Notice, Progress, Thinking, Usage
from app.backends.openai.calls import CallAssembler
from app.backends.openai.chunk import Chunk, read_chunk
from app.backends.openai.events import ServerEvent
from app.backends.remote.failure import said, words_of
from app.backends.remote.server import ServerSettings
from app.backends.remote.thinking import ThinkingApart
from app.backends.remote.unopened import Unopened
from app.backends.reply_events import Emit, ReplyEvents
from app.errors import BackendError, printable
from app.unicode import WellFormed

DONE = "[DONE]"
_REASONS: Mapping[str, FinishReason] = {  # the protocol's own words, and those of Mistral, Ollama, TGI and others
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
}
_FILTERED = frozenset({"content_filter", "sensitive", "safety"})
_FAILED = frozenset({"error", "abort", "aborted", "network_error", "cancelled"})

_LENIENT = json.JSONDecoder(strict=False)  # a line end inside a string is no reason to lose the string

log = logging.getLogger(__name__)


class Reply:
    """Takes the events of one stream and emits those of the reply. `clock` gives seconds."""

    def __init__(
        self, server: ServerSettings, stops: Sequence[str], emit: Emit, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.begun = False  # something was said
        self.complete = False  # nothing more is wanted from the server
        self._server = server
        self._emit = emit
        self._clock = clock
        self._out = ReplyEvents(starts_in_thinking=False, stops=stops, emit=self._hand_out)
        self._calls = CallAssembler()
        self._thinking, self._answer = WellFormed(), WellFormed()
        self._apart, self._unopened = ThinkingApart(), Unopened()
        self._choice: int | None = None
        self._finish_reason: str | None = None
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._unreadable = 0
        self._asked_at = clock()
        self._first_at = self._last_at = 0.0

    @property
    def ended(self) -> bool:
        """Whether the server has said why the reply ended; figures may follow."""
        return self.complete or self._finish_reason is not None

    def take(self, event: ServerEvent) -> None:
        """Raises BackendError for an error of the server."""
        if event.name == "error":
            raise self._failure(words_of(event.data))
        if event.data.strip() == DONE:
            self.complete = True
            return
        for document in _documents(event.data):
            if isinstance(document, dict):
                self._take(document)
            else:
                self._skip(event.data)

    def end(self, unframed: str) -> None:
        """The end of the stream, with the text that was no event. Raises BackendError if the reply has not ended."""
        if isinstance(document := _json(unframed), dict) and (not self.ended or document.get("error")):
            self._take(document)  # a server that does not stream, or fails outside of its stream
        if self._unreadable:
            log.warning("%s: %d events were no JSON and were skipped", self._server.name, self._unreadable)
        if self._finish_reason in _FAILED:
            raise self._failure(f"the reply ended with {self._finish_reason!r}")
        if not self.ended:
            raise self._cut_off(unframed)
        self.flush()

    def flush(self) -> None:
        """Hand out what was held back."""
        self._think(self._apart.think(self._thinking.flush()))
        self._out.push(self._apart.answer(self._answer.flush()))
        calls = self._calls.texts()
        if calls:
            self._apart.called()
        thinking, answer = self._apart.flush()
        self._think(thinking)
        self._out.push(answer)
        for call in calls:
            self._out.push(call)
        self._calls = CallAssembler()
        self._out.flush()

    def done(self) -> Done:
        """The last event, after whatever a person should know about the end."""
        for notice in self._unopened.notices(self._server):
            self._emit(notice)
        word = self._finish_reason or "stop"
        if word in _FILTERED:
            self._emit(Notice(f"a filter of {self._server.name} ended the reply"))
        elif word not in _REASONS:
            self._emit(Notice(f"{self._server.name} ended the reply for a reason of its own: {printable(word)}"))
        return Done(_REASONS.get(word, "stop"), self._measured())

    def _take(self, document: Mapping[str, Any]) -> None:
        chunk, self._choice = read_chunk(document, self._choice)
        if chunk.error is not None:
            raise self._failure(chunk.error)
        if chunk.thinking or chunk.answer or chunk.calls:
            self._say(chunk)
        elif chunk.progress and not self.begun:
            self._tell_progress(chunk.progress)
        self._finish_reason = chunk.finish_reason or self._finish_reason
        self._usage = chunk.usage or self._usage
        self._timings = chunk.timings or self._timings
        self.complete = self.complete or self._out.stopped

    def _say(self, chunk: Chunk) -> None:
        self._last_at = self._clock()
        if not self.begun:
            self.begun, self._first_at = True, self._last_at
        if chunk.thinking:
            self._think(self._apart.think(self._thinking.push(chunk.thinking)))
        if chunk.answer:
            self._out.push(self._apart.answer(self._answer.push(chunk.answer)))
        for call in chunk.calls:
            self._calls.push(call)

    def _hand_out(self, event: Event) -> None:
        self._unopened.see(event)
        self._emit(event)

    def _think(self, text: str) -> None:
        if text:
            self._out.send([Thinking(text)])

    def _tell_progress(self, progress: Mapping[str, Any]) -> None:
        done, total = progress.get("processed"), progress.get("total")
        if isinstance(done, int) and isinstance(total, int):
            self._emit(Progress("reading the prompt", done, total))

    def _skip(self, data: str) -> None:
        self._unreadable += 1
        log.debug("%s: %d characters that are no JSON object were skipped", self._server.name, len(data))

    def _measured(self) -> Usage:
        """The server's own figures; what it does not say, and cannot be seen from here, is not known."""
        usage, timings = self._usage, self._timings
        first_s = self._first_at - self._asked_at if self.begun else None
        prompt_details, reply_details = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        hidden = 0 if self._apart.came else _count(reply_details, "reasoning_tokens") or 0
        return Usage(
            prompt_tokens=_count(usage, "prompt_tokens"),
            reused_tokens=_first(_count(prompt_details, "cached_tokens"), _count(timings, "cache_n")),
            generated_tokens=_count(usage, "completion_tokens"),
            drafted_tokens=_count(timings, "draft_n"),
            accepted_tokens=_count(timings, "draft_n_accepted"),
            prefill_s=_seconds(timings, "prompt_ms"),
            # thinking that was not shown took its time before the first piece
            decode_s=_first(_seconds(timings, "predicted_ms"), self._last_at - self._first_at if not hidden else None),
            first_token_s=first_s,
        )

    def _failure(self, words: str) -> BackendError:
        what = said(self._server, words) or "an error without a message"
        if not self.begun:
            return BackendError(f"{self._server.name} reported: {what}", "try again")
        return BackendError(f"{self._server.name} broke off with: {what}", "what came is kept; try again")

    def _cut_off(self, unframed: str) -> BackendError:
        name = self._server.name
        words = said(self._server, words_of(unframed))
        if self.begun:
            if words:
                return self._failure(words)
            return BackendError(f"{name} broke off in the middle of the reply", "what came is kept; try again")
        if words:
            return BackendError(f"{name} sent no reply but {words}", "is the server's url right? It often ends in /v1")
        return BackendError(f"{name} ended the connection without a reply", "the server's own log may say why")


def _documents(data: str) -> list[Any]:
    """The JSON of an event, or of each of its lines; None in place of what is none."""
    whole = _json(data)
    if whole is None and "\n" in data:
        return [_json(line) for line in data.split("\n") if line.strip() not in ("", DONE)]
    return [whole]


def _json(text: str) -> Any:
    try:
        return _LENIENT.decode(text)
    except (ValueError, RecursionError):
        return None


def _count(figures: Any, name: str) -> int | None:
    value = figures.get(name) if isinstance(figures, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _seconds(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name)
    return value / 1000 if isinstance(value, (int, float)) and value >= 0 else None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
