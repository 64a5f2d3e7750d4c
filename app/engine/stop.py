"""Stop strings: end the reply where one appears, and show nothing of it.

A stop string may be spread over several tokens, so the tail of the text that could still become one is held back, and
nothing more than that. The filter sits behind the stream decoder and sees whole characters. It knows nothing of
thinking: stops apply to whatever text it is given.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import UsageError


class StopFilter:
    """Passes text on up to the first stop string.

    The stop that is complete first wins, as if the text came character by character, so how it is cut into pieces
    makes no difference; of two that are complete at the same character the longer one does. `stopped` tells whether
    one was found; from then on nothing more comes out.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises UsageError for an empty stop string, which would end every reply at once."""
        self.stopped = False
        self._stops = tuple(stops)
        if "" in self._stops:
            raise UsageError("a stop string must not be empty", "leave the option out to have none")
        self._initials = frozenset(stop[0] for stop in self._stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""

    def push(self, text: str) -> str:
        """The text that is safe to show now."""
        if self.stopped:
            return ""
        text = self._held + text
        found = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            _, start = min(found)
            return text[:start]
        safe = len(text) - self._possible_start(text)
        self._held = text[safe:]
        return text[:safe]

    def flush(self) -> str:
        """The held text, once generation has ended for another reason."""
        held, self._held = self._held, ""
        return held

    def _possible_start(self, text: str) -> int:
        """Length of the longest tail of `text` with which a stop string begins."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._initials and any(stop.startswith(text[start:]) for stop in self._stops):
                return len(text) - start
        return 0
