"""The process that renders chat templates for `isolation.py`, so that nothing a template does can reach the chat.

A chat template is a program out of a downloaded file. Some make the renderer overflow its stack, ask for gigabytes or
never end, inside native code where no exception can stop them. Here they can: this process has little memory, no
secrets in its environment, may write no file, and is killed when it takes too long.

A request is a whole prompt, so that its clock covers every render that the prompt takes (`render.py`).

JSON lines: one request on stdin, one reply on stdout, until stdin ends. Strings are UTF-8 with surrogates passed
through, so that two lone surrogates side by side stay two.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from app.errors import TemplateError
from app.templates.environment import ChatTemplate
from app.templates.render import NO_TOKENS, Conversation, PromptTokens, render

if sys.platform != "win32":
    import resource

READY = b"ready\n"
OUT_OF_MEMORY = 77  # exit code
MEMORY_BYTES = 256 << 20  # address space, of which the interpreter takes about 25 MB
CPU_SECONDS = 3  # a request; ends a worker whose parent was killed while a template runs
# A prompt longer than this fits no context window; real templates write little more than they are given.
TEXT_BASE = 1_000_000
TEXT_PER_BYTE = 4


def encode(document: Any) -> bytes:
    """One line of the protocol. ValueError or RecursionError if `document` is not made of JSON values."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def decode(line: bytes) -> Any:
    """What `encode` was given."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


def text_limit(request_bytes: int) -> int:
    """The longest text, in characters, that a request of that size may become."""
    return TEXT_BASE + TEXT_PER_BYTE * request_bytes


def main() -> None:
    """Answer requests until stdin ends."""
    sys.set_int_max_str_digits(0)  # the time limit bounds this too
    _limit_files_and_memory()
    try:
        _serve()
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


def _serve() -> None:
    _send(READY)
    model: Any = None
    template, tokens = ChatTemplate(""), NO_TOKENS
    reply: dict[str, Any]
    for line in sys.stdin.buffer:
        _limit_processor_time()
        request = decode(line)
        try:
            if model != request["model"]:
                source, named_tokens, control, markup = request["model"]
                template, tokens = ChatTemplate(source, named_tokens), PromptTokens(control, markup)
                model = request["model"]
            segments = render(template, Conversation(**request["conversation"]), tokens)
            limit = text_limit(len(line))
            if sum(len(segment.text) for segment in segments) > limit:
                raise TemplateError(f"the chat template was stopped: it wrote more than {limit:,} characters")
            reply = {"segments": [[segment.text, segment.trusted] for segment in segments]}
        except TemplateError as error:
            if isinstance(error.__cause__, MemoryError):
                raise error.__cause__ from None
            reply = {"error": [error.message, error.hint, error.line]}
        _send(encode(reply))


def _send(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if sys.platform != "win32":

    def _limit(kind: int, wanted: int) -> None:
        """Lower a soft limit, or raise one that was lowered here."""
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))

    def _limit_files_and_memory() -> None:
        _limit(resource.RLIMIT_CORE, 0)  # a core file would hold the chat
        _limit(resource.RLIMIT_FSIZE, 0)
        if sys.platform != "darwin":  # macOS knows this limit and does not keep it; fuel and time bound it there
            _limit(resource.RLIMIT_AS, MEMORY_BYTES)

    def _limit_processor_time() -> None:
        _limit(resource.RLIMIT_CPU, int(time.process_time()) + CPU_SECONDS)

else:

    def _limit_files_and_memory() -> None:
        """Windows has no such limits; the fuel of a render and the parent's clock remain."""

    def _limit_processor_time() -> None:
        """See above."""


if __name__ == "__main__":
    main()
