"""Server-sent events out of bytes, as the HTML standard defines them (9.2.6, "Interpreting an event stream").

Two things go beyond the standard, because servers do them: an event "error" counts without data, and text that is no
field of any event, such as a web page or a bare JSON object under a status of 200, is kept for whoever has to explain
why there was no reply.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.backends.remote.lines import LineSplitter

MOST_UNFRAMED = 8 << 20  # characters: a whole reply may come as one object


@dataclass(frozen=True)
class ServerEvent:
    """One event; several data lines of it are joined by line ends."""

    name: str
    data: str


class EventParser:
    """Push bytes as they come, cut anywhere, and `end` it. `unframed` is the text that belonged to no event."""

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._name = ""
        self._data: list[str] = []
        self._unframed: list[str] = []
        self._unframed_length = 0

    @property
    def unframed(self) -> str:
        """Lines that are no field of an event, from the first 8 MB of them."""
        return "\n".join(self._unframed)

    def push(self, piece: bytes) -> list[ServerEvent]:
        """The events that `piece` completes. Raises BackendError for an endless line."""
        return [event for line in self._lines.push(piece) if (event := self._take(line))]

    def end(self) -> list[ServerEvent]:
        """The event that the end of the stream left open, if one is: some servers forget the last blank line."""
        lines = [self._lines.rest(), ""]
        return [event for line in lines if (event := self._take(line))]

    def _take(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name not in ("", "id", "retry") and self._unframed_length < MOST_UNFRAMED:
            self._unframed.append(line)
            self._unframed_length += len(line)
        return None

    def _dispatch(self) -> ServerEvent | None:
        event = ServerEvent(self._name, "\n".join(self._data))
        self._name, self._data = "", []
        return event if event.data or event.name == "error" else None
