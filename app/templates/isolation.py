"""Chat templates rendered in a process of their own, because a template comes from a file that anybody may have made.

In-process bounds stop most hostile templates, but not all: deep nesting overflows the native stack, a list that holds
itself many times over takes for ever to count. In a worker process those end as one `TemplateError`, and the chat goes
on. `worker.py` is the other end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from app.errors import TemplateError, printable
from app.templates.environment import NO_TEMPLATE_HINT
from app.templates.guard import Segment
from app.templates.render import NO_TOKENS, Conversation, PromptTokens
from app.templates.worker import MEMORY_BYTES, OUT_OF_MEMORY, READY, decode, encode, text_limit

SECONDS = 1.5  # for one prompt, however many renders it takes; real templates take some milliseconds
START_SECONDS = 20.0  # the machine may be busy, and the worker is ours
SOURCE_CHARACTERS = 256 << 10  # the longest of 884 published templates has 45,000
REQUEST_BYTES = 8 << 20  # more than any context window holds, and what MEMORY_BYTES is enough for
# -P and PYTHONPATH: this very package is imported, whatever an `app` folder in the working directory holds
_COMMAND = (sys.executable, "-P", "-m", "app.templates.worker")
_KEPT_VARIABLES = ("TZ", "SYSTEMROOT", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Renderer:
    """A worker process that is started when it is first needed, or earlier on request, and again after every end.

    Safe to use from several threads; they take turns. The process ends with this object or with the program.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._stop: weakref.finalize[..., Renderer] | None = None

    def start(self) -> None:
        """Start the process without waiting for it; a failure shows at the first render."""
        with self._turn:
            self._start()

    def render(self, request: bytes) -> list[Segment]:
        """The prompt for one encoded request; raises TemplateError, also when the template had to be stopped."""
        with self._turn:
            process = self._start()
            try:
                if not self._ready:
                    self._await_start(process)
                return self._answer(process, request)
            except TemplateError:
                raise
            except BaseException:
                self._end()  # interrupted halfway: its answer must not be taken for the next one
                raise

    def close(self) -> None:
        """End the process."""
        with self._turn:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        # No locale: its archive would count as memory of the template. A session: Ctrl-C is for the chat.
        environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUTF8": "1", "PYTHONCOERCECLOCALE": "0"}
        try:
            self._process = subprocess.Popen(
                _COMMAND,
                bufsize=1 << 16,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=kept | environment,
                start_new_session=True,
            )
        except OSError as error:
            raise TemplateError(f"the template renderer cannot be started: {error.strerror}") from error
        self._stop = weakref.finalize(self, _end_process, self._process)
        return self._process

    def _end(self) -> int:
        """End the process, if there is one, and return its exit status."""
        process, self._process, self._ready = self._process, None, False
        if process is None or self._stop is None:
            return 0
        self._stop()
        return process.returncode

    def _await_start(self, process: subprocess.Popen[bytes]) -> None:
        line, _ = _exchange(process, b"", START_SECONDS, len(READY))
        if line != READY:
            status = _name_of(self._end())
            raise TemplateError(f"the template renderer did not start ({status})", f"try: {' '.join(_COMMAND)}")
        self._ready = True

    def _answer(self, process: subprocess.Popen[bytes], request: bytes) -> list[Segment]:
        # JSON needs at most six bytes a character; a segment of two characters has ten more around it
        longest = 12 * text_limit(len(request)) + 4096
        line, in_time = _exchange(process, request, SECONDS, longest)
        if not line.endswith(b"\n"):
            self._raise_stopped(in_time)
        reply = decode(line)
        if "segments" in reply:
            return [Segment(text, trusted) for text, trusted in reply["segments"]]
        message, hint, number = reply["error"]
        raise TemplateError(printable(message, 400), hint or NO_TEMPLATE_HINT, number)

    def _raise_stopped(self, in_time: bool) -> NoReturn:
        status = self._end()
        if not in_time or -status == getattr(signal, "SIGXCPU", None):
            what = f"it ran for more than {SECONDS:g} s"
        elif status in (OUT_OF_MEMORY, -signal.SIGABRT):  # native code aborts where memory ends
            what = f"it needed more than {MEMORY_BYTES >> 20} MB of memory"
        else:
            what = f"the renderer crashed ({_name_of(status)})"
        raise TemplateError(f"the chat template was stopped: {what}", NO_TEMPLATE_HINT)


class IsolatedTemplate:
    """A model's chat template with its vocabulary's tokens: `render.render` of it, done by a `Renderer`.

    Conversations are made of JSON values: mappings with string keys, lists, strings, numbers, booleans and None. What
    cannot be parsed is refused at the first render, not here.
    """

    def __init__(
        self,
        source: str,
        named_tokens: Mapping[str, str] | None = None,
        tokens: PromptTokens = NO_TOKENS,
        renderer: Renderer | None = None,
    ) -> None:
        self.source = source
        self._model = encode(
            [source[: SOURCE_CHARACTERS + 1], dict(named_tokens or {}), sorted(tokens.control), sorted(tokens.markup)]
        ).rstrip()
        self._renderer = renderer or Renderer()

    def render(self, conversation: Conversation) -> list[Segment]:
        """The prompt; raises TemplateError when the template refuses the conversation or cannot be run."""
        if len(self.source) > SOURCE_CHARACTERS:
            raise TemplateError(
                f"the chat template is too long: {len(self.source):,} characters, of at most {SOURCE_CHARACTERS:,}",
                NO_TEMPLATE_HINT,
            )
        try:
            asked = encode(vars(conversation)).rstrip()
        except (ValueError, RecursionError) as error:  # an integer of thousands of digits, nesting of hundreds
            raise TemplateError(f"this conversation cannot be rendered: {printable(str(error), 120)}") from error
        request = b'{"model":%b,"conversation":%b}\n' % (self._model, asked)
        if len(request) > REQUEST_BYTES:
            raise TemplateError(
                f"the conversation is too long for a template: {len(request):,} bytes, of at most {REQUEST_BYTES:,}",
                "shorten the message or begin a new chat",
            )
        return self._renderer.render(request)


def _exchange(process: subprocess.Popen[bytes], request: bytes, seconds: float, longest: int) -> tuple[bytes, bool]:
    """Send `request` and read a line of at most `longest` bytes; the process is killed after `seconds`.

    Returns the line, which is empty or cut where the process ended, and whether that came in time.
    """
    assert process.stdin is not None and process.stdout is not None
    killer = threading.Timer(seconds, process.kill)
    killer.daemon = True
    begin = time.monotonic()
    killer.start()
    try:
        process.stdin.write(request)
        process.stdin.flush()
        return process.stdout.readline(longest), time.monotonic() - begin < seconds
    except BrokenPipeError:
        return b"", time.monotonic() - begin < seconds
    finally:
        killer.cancel()
        killer.join()  # or it might still kill, in the middle of the next exchange


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs, and collect it."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except BrokenPipeError:  # closing writes what was left of a request
            continue
    process.wait()


def _name_of(status: int) -> str:
    """An exit status for people: a signal's name or the exit code."""
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit code {status}"
