"""Keys and pastes are told apart, however what a terminal sends is cut into pieces."""

from __future__ import annotations

from textual.events import Paste

from app.ui.pasted import END, START, PasteSplitter

INSIDE = "\x1bone\rtwo\x0e\x1b[A \x1b[200~ \x1b[20 " + "x" * 50 + "\r"


def split(text: str, size: int) -> list[str]:
    """What comes out for `text` in pieces of `size`: keys as they are, a paste in brackets."""
    splitter = PasteSplitter()
    out: list[str] = []
    for at in range(0, len(text), size):
        for piece in splitter.feed(text[at : at + size]):
            out.append(f"[{piece.text}]" if isinstance(piece, Paste) else piece)
    return ["".join(out), "".join(splitter.silence())]


def test_a_paste_is_one_text_in_pieces_of_any_size() -> None:
    text = f"ab{START}{INSIDE}{END}cd\x1b[2{START}{END}\x1b"
    for size in range(1, len(text) + 1):
        assert split(text, size) == [f"ab[{INSIDE}]cd\x1b[2[]", "\x1b"]


def test_a_key_that_may_begin_a_paste_waits_for_silence_alone() -> None:
    splitter = PasteSplitter()
    assert list(splitter.feed("\x1b")) == [] and list(splitter.silence()) == ["\x1b"]
    assert list(splitter.feed("\x1b[")) == [] and list(splitter.feed("A")) == ["\x1b[A"]
    assert list(splitter.feed(START + "half\x1b")) == [] and list(splitter.silence()) == []
    assert [piece.text for piece in splitter.feed(END[1:]) if isinstance(piece, Paste)] == ["half"]
