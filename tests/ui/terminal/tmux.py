"""A person's terminal: a shell in a real tmux, driven by keys and read off the screen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.ui.widgets.composer import PASTED_WITHIN_S
from tests.ui.repl.terminal import ROOT

PATIENCE_S = 60.0  # of a test on a busy machine
LOOK_EVERY_S = 0.02
_CONFIG = """\
set -g default-terminal tmux-256color
set -g escape-time 0
set -g status off
"""


class Tmux:
    """One window with `sh` in it. Its environment is that of the tests, changed by `env`; None unsets a variable."""

    def __init__(self, cwd: Path, env: Mapping[str, str | None], columns: int = 110, rows: int = 34) -> None:
        program = shutil.which("tmux")
        if program is None:
            pytest.fail("these tests drive the app in tmux: install it, as in 'apt-get install tmux'")
        self._folder = tempfile.TemporaryDirectory(prefix="qchat-tmux-")  # the path of a socket is short
        folder = Path(self._folder.name)
        (folder / "tmux.conf").write_text(_CONFIG)
        self._tmux = [program, "-S", str(folder / "socket"), "-f", str(folder / "tmux.conf")]
        wanted = {
            **os.environ,
            "ENV": "",
            "PYTHONPATH": str(ROOT),
            "COLORTERM": None,
            "NO_COLOR": None,
            "TMUX": None,
            **env,
        }
        self._environment = {name: value for name, value in wanted.items() if value is not None}
        self._run("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd), "sh")
        self.until(str.strip)  # the prompt

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server")
        self._folder.cleanup()

    @property
    def screen(self) -> str:
        """What a person sees, without the spaces at the ends of lines."""
        return "\n".join(line.rstrip() for line in self._run("capture-pane", "-p").splitlines())

    @property
    def flags(self) -> str:
        """What the program has set on the terminal: alternate screen, mouse, cursor."""
        return self._run("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names: Enter, C-t, M-Left."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text into a field with a border, and wait until it is there and an Enter is no longer a paste's."""
        self._run("send-keys", "-l", text)
        field = re.compile(rf"[│▊]\s+{re.escape(text)}")
        self.until(field.search)
        time.sleep(2 * PASTED_WITHIN_S)

    def command(self, line: str) -> None:
        """Run a command line of the shell."""
        self._run("send-keys", "-l", line)
        self.press("Enter")

    def until(self, true: str | Callable[[str], object]) -> str:
        """Wait until the screen has this text, or is as `true` wants it. The screen."""
        end = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen
            if true in screen if isinstance(true, str) else true(screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {true!r}; the screen:\n{screen}")
            time.sleep(LOOK_EVERY_S)

    def _run(self, *command: str) -> str:
        done = subprocess.run([*self._tmux, *command], env=self._environment, capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")
