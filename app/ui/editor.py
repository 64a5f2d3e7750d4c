"""Writing a text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from app.chat.text import well_formed
from app.errors import UsageError, printable


def edit_text(text: str) -> str:
    """`text` as the person left it in $VISUAL or $EDITOR, without the newline at its end. Waits for the editor.

    Raises UsageError if no editor is set, or it cannot be started or fails.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("no editor is set", "set EDITOR, as in: export EDITOR=nano")
    descriptor, name = tempfile.mkstemp(prefix="qchat-", suffix=".md")  # readable for this user alone
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        try:
            code = subprocess.run([*shlex.split(editor), name], check=False).returncode
        except (OSError, ValueError) as error:
            message = f"cannot start the editor {printable(editor)}: {error}"
            raise UsageError(message, "check VISUAL and EDITOR") from error
        if code != 0:
            raise UsageError(f"the editor ended with code {code}, so its text is not used")
        edited = file.read_text("utf-8", "surrogateescape")
    finally:
        file.unlink(missing_ok=True)
    return well_formed(edited.removesuffix("\n"))
