"""Tells a pasted line end from the Enter key, where a terminal sends a paste as if it were typed.

Over some connections there is no bracketed paste. But no person presses Enter in one instant with what follows, so an
Enter with more keys behind it is text, and so is every other until the keyboard has been silent or a key comes alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

SILENCE_S = 0.2


class PasteGuard:
    """Passes keys on, those of a paste as pasted text. `keys` are what one read gave, `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pasting = False
        self._last = float("-inf")
        self._before: Keys | str | None = None  # the key before those of this read

    def sift(self, keys: Sequence[KeyPress]) -> list[KeyPress]:
        """The keys as they are to be acted on."""
        now = self._clock()
        in_one_go = any(press.key in (Keys.ControlM, Keys.BracketedPaste) for press in keys[:-1])
        goes_on = self._pasting and now - self._last < SILENCE_S and not _is_typed(keys)
        self._pasting = in_one_go or goes_on
        before = self._before if self._pasting else None
        if keys:
            self._last, self._before = now, keys[-1].key
        return _as_text(keys, before) if self._pasting else list(keys)


def _is_typed(keys: Sequence[KeyPress]) -> bool:
    """Whether a person pressed a key: it came alone, and is none that ends a line, as the last one of a paste may."""
    return len(keys) == 1 and keys[0].key not in (Keys.ControlM, Keys.ControlJ)


def _as_text(keys: Sequence[KeyPress], before: Keys | str | None) -> list[KeyPress]:
    """The keys with Enter, newline and Tab as pasted text; a carriage return and a newline are one line end."""
    texts: Mapping[Keys | str, str] = {Keys.ControlM: "\n", Keys.ControlJ: "\n", Keys.ControlI: "\t"}
    sifted = []
    for press in keys:
        if press.key in texts:
            if (before, press.key) != (Keys.ControlM, Keys.ControlJ):
                sifted.append(KeyPress(Keys.BracketedPaste, texts[press.key]))
        else:
            sifted.append(press)
        before = press.key
    return sifted
