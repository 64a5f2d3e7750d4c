"""What others write to stderr while the app draws goes to a log, and the terminal is stderr again afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.ui.stderr_guard import FILE_NAME, MAX_BYTES

PROGRAM = """
import os, sys
from pathlib import Path
from app.ui.stderr_guard import stderr_to_log

with stderr_to_log(Path(sys.argv[1])):
    os.write(2, b"native ")
    sys.__stderr__.write("drawn ")
    sys.__stderr__.flush()
    os.system("echo a child >&2")
os.write(2, b"native after ")
print("printed after", file=sys.stderr)
"""


def run(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stderr


def test_stderr_is_the_log_while_the_app_draws_and_the_terminal_again_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    assert run(folder) == "drawn native after printed after\n"
    log = folder / FILE_NAME
    assert log.read_text("utf-8") == "native a child\n"
    if os.name == "posix":
        assert log.stat().st_mode & 0o777 == 0o600


def test_several_windows_write_to_one_log_which_does_not_grow_for_ever(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path)
    log = tmp_path / FILE_NAME
    assert log.read_text("utf-8") == "native a child\n" * 2
    log.write_text("x" * (MAX_BYTES + 1), "utf-8")
    run(tmp_path)
    assert log.read_text("utf-8") == "native a child\n"
