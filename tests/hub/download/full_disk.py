"""D03 on a disk that is really full: what a pull says there, what is left of it, and that a later one goes on.

Run by test_full_disk.py in a process for which QCHAT_HOME is a small disk. Writes what happened as JSON.

    python -m tests.hub.download.full_disk SOURCE_OF_KNOWN_LENGTH SOURCE_OF_UNKNOWN_LENGTH SERVER LENGTH
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.request

from app.cli import run
from app.errors import DownloadError
from app.hub.download.handle import Download
from app.hub.download.kept import kept_parts
from app.hub.library import Library
from app.hub.transfer import Transfer
from app.settings import paths
from tests.hub.download.pulling import quick
from tests.small_disk import fill


def main(known: str, unknown: str, server: str, length: int) -> None:
    library = Library(paths().models_dir)
    library.prepare()
    other = paths().data_dir / "other"
    happened: dict[str, object] = {}

    def left() -> list[str]:
        return sorted(path.name for path in library.incoming_dir.iterdir())

    other.write_bytes(bytes(length // 2))
    happened["too large"] = [*said("models", "pull", known), left()]
    happened["too large, unknown"] = [*said("models", "pull", unknown), left()]
    other.unlink()

    def report(transfer: Transfer) -> None:
        if transfer.done == length // 2 and not other.exists():
            fill(other)
            urllib.request.urlopen(f"{server}/full").close()

    try:
        Download(known, library, report, options=quick()).run()
    except DownloadError as error:
        happened["filled"] = [error.exit_code, f"{error.message} {error.hint}", left()]
    happened["kept"] = [part.done for part in kept_parts(library)]
    happened["shown"] = said("models", "parts")
    other.unlink()
    happened["room"] = said("models", "pull", known)
    happened["removed"] = said("models", "remove", "x")
    fill(other)
    happened["full"] = said("models", "pull", unknown)
    (library.incoming_dir / "y.gguf.part").touch()
    happened["cleared"] = [*said("models", "parts", "--clear"), left()]
    json.dump(happened, sys.stdout)


def said(*arguments: str) -> list[object]:
    """[exit code, what a command wrote]"""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = run(list(arguments))
    return [code, text.getvalue()]


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
