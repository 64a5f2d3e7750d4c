"""Copying: which way is taken where, what is sent to a terminal, and what a person is told."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from app.ui.clipboard import TERMINAL_BYTES, clipboard_sequence, copy_text


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for programs that a test makes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def make_tool(tools: Path, name: str, code: int = 0) -> Path:
    """A program that keeps its input in the file that is returned."""
    kept = tools / f"{name}.input"
    program = tools / name
    program.write_text(f"#!/bin/sh\n/bin/cat > {kept}\nexit {code}\n")
    program.chmod(0o700)
    return kept


def decoded(sequence: str) -> str:
    found = re.findall("\x1b\\]52;c;([A-Za-z0-9+/=]*)\x07", sequence)
    return base64.b64decode(found[0]).decode()


def test_on_a_local_desktop_its_program_copies(tools: Path) -> None:
    kept = make_tool(tools, "xclip")
    sent: list[str] = []
    copied = copy_text("a 🐺\n", sent.append, {"PATH": str(tools), "DISPLAY": ":0", "TERM": "xterm"})
    assert copied.done and "xclip" in copied.said
    assert kept.read_text() == "a 🐺\n"
    assert sent == []


@pytest.mark.parametrize(
    "environment",
    [{"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, {}, {"DISPLAY": ":0", "PATH": "/nonexistent"}],
    ids=["over ssh", "no desktop", "no program"],
)
def test_elsewhere_the_terminal_copies(tools: Path, environment: dict[str, str]) -> None:
    """U09: over ssh a program of the desktop would fill the clipboard of the wrong machine."""
    make_tool(tools, "xclip")
    sent: list[str] = []
    copied = copy_text("text", sent.append, {"PATH": str(tools), "TERM": "xterm"} | environment)
    assert copied.done and "OSC 52" in copied.said
    assert decoded("".join(sent)) == "text"


def test_a_program_that_fails_is_not_believed(tools: Path) -> None:
    make_tool(tools, "wl-copy", code=1)
    sent: list[str] = []
    environment = {"PATH": str(tools), "WAYLAND_DISPLAY": "w", "TERM": "xterm"}
    assert "OSC 52" in copy_text("text", sent.append, environment).said
    assert decoded(sent[0]) == "text"


@pytest.mark.parametrize("term", ["dumb", "", "linux", "vt100"])
def test_a_terminal_that_cannot_is_not_written_to(term: str) -> None:
    sent: list[str] = []
    copied = copy_text("text", sent.append, {"TERM": term})
    assert not copied.done and sent == []
    assert copied.said.startswith("not copied")
    assert not copy_text("text", None, {"TERM": "xterm"}).done


def test_what_is_too_long_for_a_terminal_is_said_and_not_cut() -> None:
    sent: list[str] = []
    copied = copy_text("x" * (TERMINAL_BYTES + 1), sent.append, {"TERM": "xterm"})
    assert not copied.done and sent == [] and "74,995" in copied.said
    assert copy_text("x" * TERMINAL_BYTES, sent.append, {"TERM": "xterm"}).done


def test_tmux_takes_it_itself_or_passes_it_on() -> None:
    sequence = clipboard_sequence(b"text", {"TMUX": "x", "TERM": "tmux-256color"})
    plain = clipboard_sequence(b"text", {"TERM": "xterm"})
    assert sequence == plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def test_screen_gets_pieces_that_it_passes_on() -> None:
    data = b"x" * 2000
    pieces = re.findall("\x1bP(.*?)\x1b\\\\", clipboard_sequence(data, {"TERM": "screen"}), re.DOTALL)
    assert max(map(len, pieces)) <= 768
    assert "".join(pieces) == clipboard_sequence(data, {"TERM": "xterm"})
