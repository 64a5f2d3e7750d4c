"""Writing a text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from app.chat.text import well_formed
from app.errors import UsageError, printable


def editor() -> str:
    """The command of the person's editor, $VISUAL before $EDITOR. Raises UsageError if none is set."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise UsageError("no editor is set", "set EDITOR, as in: export EDITOR=nano")
    return command


def run_editor(file: Path) -> None:
    """Open `file` in the editor and wait for it. Raises UsageError if there is none, or it does not start or fails."""
    command = editor()
    try:
        code = subprocess.run([*shlex.split(command), str(file)], check=False).returncode
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot start the editor {printable(command)}: {error}", "check VISUAL and EDITOR") from error
    if code != 0:
        raise UsageError(f"the editor ended with code {code}")


def edit_text(text: str) -> str:
    """`text` as the person left it in their editor, without the newline at its end. Raises as `run_editor` does."""
    descriptor, name = tempfile.mkstemp(prefix="qchat-", suffix=".md")  # readable for this user alone
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        run_editor(file)
        edited = file.read_text("utf-8", "surrogateescape")
    finally:
        file.unlink(missing_ok=True)
    return well_formed(edited.removesuffix("\n"))
