"""A disk of some kilobytes, a tmpfs, for one command alone: it is mounted in a namespace of that command's own.

root may do that, and on many systems everybody (`unshare --map-root-user`). Where nobody may, a test that needs the
disk is skipped, and says so at the end of the run; not where CI is set, as `.ci/run` does: there it fails.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_WAYS = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
_MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'


def run_on_small_disk(folder: Path, n_bytes: int, module: str, arguments: Sequence[str]) -> str:
    """What the module `module` of the tests writes on stdout while `folder` is a disk of `n_bytes`, at first empty."""
    folder.mkdir()
    command = [sys.executable, "-m", module, *arguments]
    done = _mounted(_way(folder), folder, n_bytes, command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fill(path: Path) -> None:
    """Write to `path` until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _way(folder: Path) -> Sequence[str]:
    """How this user may mount; skips the test, or fails it, if not at all."""
    said = "util-linux' unshare is missing"
    for way in _WAYS:
        try:
            tried = _mounted(way, folder, 1 << 20, ["true"])
        except FileNotFoundError:
            break
        if tried.returncode == 0:
            return way
        said = tried.stderr.strip()
    reason = f"no small disk can be mounted here: {said}"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; run the tests as root, or allow user namespaces")
    pytest.skip(reason)


def _mounted(
    way: Sequence[str], folder: Path, n_bytes: int, command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    whole = [*way, "sh", "-c", _MOUNT, str(n_bytes), str(folder), *command]
    return subprocess.run(whole, capture_output=True, text=True, timeout=240, check=False)
