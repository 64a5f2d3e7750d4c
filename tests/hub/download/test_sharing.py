"""Several that want one model, and disks that are too small."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.errors import DownloadError
from app.hub.download.handle import Download
from app.hub.download.kept import kept_parts, remove_parts
from app.hub.library import Library
from app.hub.transfer import Transfer
from app.lock import alone
from tests.hub.download.killing import sent, sent_by, start_pull
from tests.hub.download.pulling import LONG_S, PIECE, Pull, make_body, quick
from tests.hub.download.scripted import Hub, Request, serve_file
from tests.hub.files import left_in

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"
SOURCE = "hf:o/r/x.gguf"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_body(tmp_path_factory.mktemp("body"))


def test_two_processes_share_one_download_and_both_succeed(tmp_path: Path) -> None:
    body = make_body(tmp_path, kilobytes=1500)
    with sent_by(tmp_path / "model.gguf", body, 500_000.0) as server:
        home = tmp_path / "home"
        with start_pull(server, home, PIECE) as one, start_pull(server, home, PIECE) as two:
            assert one.wait(LONG_S) == two.wait(LONG_S) == 0
        assert sent(server) == len(body) + 1, "the file once, and one byte to ask about it"
        assert (home / "data" / "models" / "model.gguf").read_bytes() == body


def test_who_waits_sees_how_far_it_is_and_can_leave_or_take_over(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts[PATH] = serve_file(body)
    library.prepare()
    waiting, seen = threading.Event(), []

    def report(transfer: Transfer) -> None:
        seen.append(transfer)
        waiting.set()

    lock = library.incoming_dir / "x.gguf.lock"
    with alone(lock, lambda: None):
        download = Download(SOURCE, library, report, options=quick())
        thread = threading.Thread(target=download.run, daemon=True)
        thread.start()
        assert waiting.wait(LONG_S)
        assert (seen[0].stage, seen[0].note) == ("waiting", "another qchat is fetching it")
        assert hub.requests == []
    thread.join(LONG_S)
    assert (library.models_dir / "x.gguf").read_bytes() == body
    assert not lock.exists()


def test_what_is_being_fetched_is_not_removed(library: Library) -> None:
    library.prepare()
    (library.incoming_dir / "x.gguf.part").write_bytes(b"some")
    with alone(library.incoming_dir / "x.gguf.lock", lambda: None):
        assert [part.busy for part in kept_parts(library)] == [True]
        assert remove_parts(library) == []
    assert [part.name for part in remove_parts(library)] == ["x.gguf"]


# -- disks (D03) ------------------------------------------------------------------------------------------------------

_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from app.cli import run
from app.hub.download.options import Options
code = run(["models", "pull", sys.argv[2]])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(code, run(["models", "pull", sys.argv[2]]))
"""


@pytest.mark.parametrize("known", [True, False])
def test_a_disk_that_becomes_full_is_told_and_a_later_pull_goes_on(
    hub: Hub, tmp_path: Path, body: bytes, known: bool
) -> None:
    """The limit of the size of files stands for the disk: writing fails in the middle, as it does there."""

    def chunked(request: Request) -> None:
        request.head(200, Transfer_Encoding="chunked")
        request.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    hub.scripts[PATH] = serve_file(body) if known else chunked
    environment = os.environ | {"QCHAT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", _LIMITED, "200000", SOURCE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG_S, check=True)
    assert done.stdout.splitlines()[-1] == "1 0", done.stderr
    assert "the disk is full" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "home" / "data" / "models" / "x.gguf").read_bytes() == body


def test_a_disk_that_others_fill_meanwhile_ends_the_download_early(
    hub: Hub, library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([10**9, 10**9])
    hub.scripts[PATH] = serve_file(body)

    class Usage:
        def __init__(self, free: int) -> None:
            self.free = free

    monkeypatch.setattr("app.hub.download.space.shutil.disk_usage", lambda _: Usage(next(free, 1000)))
    with pytest.raises(DownloadError, match="1,000 are free"):
        Pull().run(SOURCE, library, quick())
    assert "x.gguf" not in left_in(library)
    assert kept_parts(library)[0].done > 0, "what came is kept"
