"""What counts as a terminal that can be drawn on."""

from __future__ import annotations

import io

import pytest

from app.cli.terminal import is_terminal


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("term", "draws"),
    [("xterm", True), ("screen", True), ("dumb", False), ("unknown", False), ("", False), (None, False)],
)
def test_a_terminal_that_says_nothing_of_itself_gets_no_control_codes(
    monkeypatch: pytest.MonkeyPatch, term: str | None, draws: bool
) -> None:
    """U09."""
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    assert is_terminal(Stream(terminal=True)) is draws
    assert not is_terminal(Stream(terminal=False)) and not is_terminal(None)
