"""The lines below the list: about the row at the cursor, or what went wrong with it."""

from __future__ import annotations

from textual.content import Content

from app.cli.progress import human_bytes
from app.errors import QChatError
from app.hub.choices import Choice
from app.hub.fit import Fit
from app.hub.source import endpoint
from app.ui.screens.picker.text import BAD, DIM, GOOD, escaped, roughly, shown_name


def detail(choice: Choice, width: int, verdict: str = "") -> Content:
    """Three lines of `width` cells about a row: what it is, and the memory that it takes or why it cannot run.

    verdict: what was found out about its file when it was fetched.
    """
    if choice.place == "repository":
        said = f"Enter asks {escaped(endpoint())} which quantisations it has"
        return Content.assemble((escaped(choice.name), "bold"), "\n", (said, DIM))
    if choice.place == "unfinished":
        total = f" of {human_bytes(choice.size)}" if choice.size else ""
        said = choice.problem or f"from {choice.name}"
        first = Content.assemble((shown_name(choice), "bold"), (f" · {human_bytes(choice.done)}{total} are here", DIM))
        return Content.assemble(first.truncate(width, ellipsis=True), "\n", (escaped(said), DIM))
    if choice.place == "backend":
        said = f"Its models are its own: qchat --backend {escaped(choice.name)} --model NAME"
        return Content.assemble((escaped(choice.name), "bold"), "\n", (said, DIM))
    if choice.place == "server":
        second = _server_sentence(choice)
    elif choice.problem:
        second = Content.styled(f"cannot run: {escaped(choice.problem)}", BAD)
    elif choice.fit:
        second = Content.styled(_memory_sentence(choice, choice.fit), DIM)
    else:
        second = Content.styled("" if choice.complete else "reading the file ...", DIM)
    if verdict:
        line = Content.assemble((escaped(choice.name), "bold"), (f" · {escaped(verdict)}", GOOD))
        return Content.assemble(line.truncate(width, ellipsis=True), "\n", second)
    best = "the best for this machine" if choice.best else ""
    about = [escaped(text) for text in (choice.title, best, choice.licence, choice.note) if text]
    if choice.linked_to:
        about.append(f"at {escaped(str(choice.linked_to))}")
    first = Content.assemble((escaped(choice.name), "bold"), (" · ".join(["", *about]), DIM))
    room = width if second.cell_length > width else 2 * width - 12  # a word may not fit at the end of a line
    return Content.assemble(first.truncate(room, ellipsis=True), "\n", second)


def failure(error: QChatError) -> Content:
    """What went wrong and what to do, in two lines."""
    return Content.assemble((escaped(error.message), f"bold {BAD}"), "\n", (escaped(error.hint or ""), DIM))


def _server_sentence(choice: Choice) -> Content:
    if choice.problem:
        return Content.styled(escaped(choice.problem), BAD)
    waiting = "" if choice.complete else " It has not told its models yet."
    return Content.styled(f"That server answers, and what you write goes there.{waiting}", DIM)


def _memory_sentence(choice: Choice, fit: Fit) -> str:
    about = roughly(choice)
    weights, cache = human_bytes(fit.weights), human_bytes(fit.kv_per_token * fit.context)
    if not fit.kv_per_token:  # the name of a file does not tell
        return f"{about}{weights} of weights + the conversation + the program"
    sentence = f"{about}{weights} of weights + {about}{cache} for {fit.context:,} tokens + the program"
    if fit.verdict == "tight":
        sentence += f"; {human_bytes(fit.free or 0)} free is enough for {about}{fit.tokens or 0:,} tokens"
    return sentence
