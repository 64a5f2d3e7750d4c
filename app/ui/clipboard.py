"""Copying, also from a machine at the other end of ssh.

The terminal itself can set the clipboard (the sequence OSC 52), which reaches the person wherever the program runs, but
says nothing back and is refused by some terminals. A program of the desktop says whether it worked, but sets the
clipboard of the machine that it runs on. So the desktop's comes first on a local machine, and the terminal's elsewhere.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TERMINAL_BYTES = 74_994  # the most that common terminals take: 100,000 characters of base64
TOOL_S = 3.0
_SCREEN_PIECE = 512  # bytes; GNU screen passes on strings of up to 768

_MUTE_TERMINALS = ("", "dumb", "linux", "vt100", "vt102", "vt220")  # no OSC 52 there

Write = Callable[[str], None]


@dataclass(frozen=True)
class Copied:
    """What became of a copy: `done`, and a sentence for a person that says where the text went or why it did not."""

    done: bool
    said: str


def copy_text(text: str, write: Write | None, environment: Mapping[str, str] = os.environ) -> Copied:
    """Copy `text`. `write` puts a control sequence on the terminal as it is; None where there is no terminal."""
    data = text.encode("utf-8", "replace")
    size = f"{len(text):,} characters"
    if not _is_remote(environment) and (tool := _copy_with_tool(data, environment)):
        return Copied(True, f"copied {size} with {tool}")
    if write is None or environment.get("TERM", "") in _MUTE_TERMINALS:
        return Copied(False, "not copied: there is no clipboard program here, and no terminal that sets the clipboard")
    if len(data) > TERMINAL_BYTES:
        return Copied(
            False, f"not copied: {len(data):,} bytes are more than a terminal's clipboard takes ({TERMINAL_BYTES:,})"
        )
    write(clipboard_sequence(data, environment))
    return Copied(
        True, f"sent {size} to the terminal's clipboard (OSC 52); a terminal that does not allow it is silent"
    )


def clipboard_sequence(data: bytes, environment: Mapping[str, str] = os.environ) -> str:
    """The sequence that sets the clipboard, also through tmux (which may take it itself or pass it on) and screen."""
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\x07"
    if environment.get("TMUX"):
        return sequence + "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environment.get("STY") or environment.get("TERM", "").startswith("screen"):
        pieces = [sequence[at : at + _SCREEN_PIECE] for at in range(0, len(sequence), _SCREEN_PIECE)]
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence


def _is_remote(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"))


def _copy_with_tool(data: bytes, environment: Mapping[str, str]) -> str | None:
    """The name of the program that took `data`, if one did."""
    for command in _tools(environment):
        program = shutil.which(command[0], path=environment.get("PATH"))
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, *command[1:]],
                input=data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TOOL_S,
                check=False,
                env=dict(environment),
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return None


def _tools(environment: Mapping[str, str]) -> Sequence[Sequence[str]]:
    if sys.platform == "darwin":
        return [["pbcopy"]]
    if sys.platform == "win32":
        return [["clip"]]
    tools: list[Sequence[str]] = []
    if environment.get("WAYLAND_DISPLAY"):
        tools.append(["wl-copy"])
    if environment.get("DISPLAY"):
        tools += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return tools
