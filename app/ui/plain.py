"""One reply as plain text: the answer on stdout and nothing else there, everything about it on stderr.

On a terminal, text of the model has its control characters escaped, because they could drive the terminal; into a file
or a pipe it goes as it is. No colours are used, and the one thing that is redrawn, the progress line, appears only
where stderr is a terminal.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO

from app.backends.base import Answer, Event, Notice, Progress, Thinking, ToolCall
from app.chat.turn import Reply
from app.cli.terminal import escape_controls, is_terminal
from app.ui.speculation import about_speculation

_CLEAR_LINE = "\r\x1b[K"


class PlainOutput:
    """Shows the events of a reply as they come; closing its stdout makes the next answer raise BrokenPipeError."""

    def __init__(self, *, show_answer: bool = True, show_thinking: bool = False, draw: bool = True) -> None:
        self._out: TextIO = sys.stdout or io.StringIO()  # None where the caller closed it
        self._err: TextIO = sys.stderr or io.StringIO()
        self._show_answer = show_answer
        self._show_thinking = show_thinking
        self._draws_progress = draw and is_terminal(self._err)
        self._progress_drawn = False
        self._unfinished: TextIO | None = None  # the stream whose last line has no newline yet

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Answer(text) if self._show_answer:
                self._stream_text(self._out, text)
            case Thinking(text) if self._show_thinking:
                self._stream_text(self._err, text)
            case Progress() if self._draws_progress:
                self._draw(event)
            case Notice(text):
                self.say(f"qchat: {text}")
            case ToolCall(_, _, raw):
                self.say(raw)

    def say(self, text: str) -> None:
        """Whole lines on stderr, always escaped: parts of them may come from anywhere."""
        self._clear_progress()
        if self._unfinished is self._err or (self._unfinished and self._out.isatty() and self._err.isatty()):
            self._err.write("\n")
            self._unfinished = None if self._unfinished is self._err else self._unfinished
        self._err.write(escape_controls(text) + "\n")
        self._err.flush()

    def finish(self) -> None:
        """The end of the reply, whole or not: the newline after it, and no progress line left behind."""
        self._clear_progress()
        if self._unfinished:
            self._unfinished.write("\n")
            self._unfinished.flush()
            self._unfinished = None

    def _stream_text(self, stream: TextIO, text: str) -> None:
        self._clear_progress()
        if self._unfinished is self._err and stream is self._out:
            self._err.write("\n\n")
            self._err.flush()
        stream.write(escape_controls(text) if stream.isatty() else text)
        stream.flush()
        self._unfinished = stream

    def _draw(self, progress: Progress) -> None:
        amount = f"{progress.done:,}" if progress.done else ""
        if progress.total:
            amount = f"{100 * progress.done // progress.total} %"
        line = escape_controls(f"{progress.stage} {amount}".rstrip())[: shutil.get_terminal_size().columns - 1]
        self._err.write(_CLEAR_LINE + line)
        self._err.flush()
        self._progress_drawn = True

    def _clear_progress(self) -> None:
        if self._progress_drawn:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
            self._progress_drawn = False


def statistics(reply: Reply, facts: Mapping[str, Any]) -> str:
    """What `--stats` prints: tokens, seconds and tokens a second of each stage, and what ran them, a line for each."""
    return statistics_of(asdict(reply.usage) if reply.usage else {}, facts)


def statistics_of(usage: Mapping[str, float | None], facts: Mapping[str, Any]) -> str:
    """The same from the fields of a `Usage`, as they are kept with a message. What is not known is left out."""
    known: dict[str, Any] = {name: value for name, value in usage.items() if value is not None}
    rows = []
    if "prompt_tokens" in known:
        prompt, reused = known["prompt_tokens"], known.get("reused_tokens")
        parts = [f"{prompt:,} tokens" + ("" if reused is None else f", {reused:,} of them reused")]
        if "prefill_s" in known:
            parts.append(_speed(prompt - (reused or 0), known["prefill_s"]))
        rows.append(("prompt", "; ".join(parts)))
    parts = []
    if "generated_tokens" in known:
        parts.append(f"{known['generated_tokens']:,} tokens")
        if "decode_s" in known:  # the first token comes out of the prompt
            parts.append(_speed(max(known["generated_tokens"] - 1, 0), known["decode_s"]))
    if "first_token_s" in known:
        parts.append(f"the first after {known['first_token_s']:.2f} s")
    if parts:
        rows.append(("reply", "; ".join(parts)))
    if guesses := about_speculation(known):
        rows.append(("speculation", guesses))
    rows += [(name, _fact(value)) for name, value in facts.items() if name != "notes"]
    rows += [("note", note) for note in facts.get("notes", ())]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _speed(tokens: int, seconds: float) -> str:
    return f"{seconds:.2f} s, {tokens / seconds:,.1f} tokens/s" if seconds > 0 else f"{seconds:.2f} s"


def _fact(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
