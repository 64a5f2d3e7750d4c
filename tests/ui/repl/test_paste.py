"""U04: a paste that comes as plain keys is one draft, and Enter alone is Enter."""

from __future__ import annotations

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from app.ui.repl.paste import SILENCE_S, PasteGuard

_NAMES = {"\r": Keys.ControlM, "\n": Keys.ControlJ, "\t": Keys.ControlI, "\x03": Keys.ControlC}
PASTED_KEY = KeyPress(Keys.BracketedPaste, "pasted")


class Keyboard:
    """A keyboard and the clock that it is read by. Pasted text is shown in brackets."""

    def __init__(self) -> None:
        self.now = 100.0
        self._guard = PasteGuard(lambda: self.now)

    def press(self, keys: str, after_s: float = 1.0, begin: tuple[KeyPress, ...] = ()) -> str:
        self.now += after_s
        presses = [*begin, *(KeyPress(_NAMES.get(key, key), key) for key in keys)]
        return "".join(f"[{p.data}]" if p.key == Keys.BracketedPaste else p.data for p in self._guard.sift(presses))


def test_keys_that_are_typed_are_left_alone() -> None:
    keyboard = Keyboard()
    for keys in ("h", "i", "\r", "\n", "\t", "\x03", "hello\r", "", "a\tb"):
        assert keyboard.press(keys) == keys


def test_enter_with_keys_behind_it_is_text() -> None:
    assert Keyboard().press("one\rtwo\tx\r/quit\r") == "one[\n]two[\t]x[\n]/quit[\n]"
    assert Keyboard().press("\r\r") == "[\n][\n]"


def test_a_paste_goes_on_over_several_reads_until_there_is_silence() -> None:
    keyboard = Keyboard()
    assert keyboard.press("one\rtwo") == "one[\n]two"
    assert keyboard.press("\r", after_s=SILENCE_S / 2) == "[\n]"
    assert keyboard.press("\r", after_s=SILENCE_S / 2) == "[\n]"
    assert keyboard.press("\r", after_s=SILENCE_S) == "\r"


def test_a_key_that_comes_alone_ends_the_paste() -> None:
    """Somebody who types on at once must not have the Enter key taken for text."""
    keyboard = Keyboard()
    assert keyboard.press("one\rtwo\r") == "one[\n]two[\n]"
    assert keyboard.press("!", after_s=SILENCE_S / 2) == "!"
    assert keyboard.press("\r", after_s=SILENCE_S / 2) == "\r"


def test_carriage_return_and_newline_are_one_line_end() -> None:
    keyboard = Keyboard()
    assert keyboard.press("a\r\nb\r") == "a[\n]b[\n]"
    assert keyboard.press("\nc", after_s=0.0) == "c"
    assert keyboard.press("d\r", after_s=0.0) == "d[\n]"
    assert Keyboard().press("a\rb\nc") == "a[\n]b[\n]c"


def test_what_follows_the_end_of_a_bracketed_paste_at_once_belongs_to_it() -> None:
    keyboard = Keyboard()
    assert keyboard.press("/quit\r", begin=(PASTED_KEY,)) == "[pasted]/quit[\n]"
    assert keyboard.press("\r") == "\r"
    assert keyboard.press("", begin=(PASTED_KEY,)) == "[pasted]"
    assert keyboard.press("\r", after_s=0.0) == "\r"
