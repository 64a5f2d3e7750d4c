"""A download goes on where it stopped, after any end, and only where it is surely the same file."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pytest

from app.errors import DownloadError, NetworkError
from app.hub.download.handle import Download
from app.hub.download.kept import kept_parts, remove_parts
from app.hub.library import Library
from app.hub.transfer import Cancelled, Transfer
from tests.hub.download.killing import BYTES_PER_S, kill_while_pulling, sent_by, sound
from tests.hub.download.pulling import LONG_S, PATIENT, PIECE, Pull, SkippingClock, make_body, quick, with_tries
from tests.hub.download.scripted import Hub, Request, cut, serve_file, serve_whole, sha256, stretch
from tests.hub.files import left_in

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"
SOURCE = "hf:o/r/x.gguf"
ONCE = quick(with_tries(PATIENT, 1))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_body(tmp_path_factory.mktemp("body"))


def part_of(library: Library) -> Path:
    return library.incoming_dir / "x.gguf.part"


def begin(hub: Hub, library: Library, body: bytes, here: int = 150_000, **headers: object) -> None:
    """Leave a part with the first `here` bytes."""
    good = serve_file(body, **headers)

    def script(request: Request) -> None:
        if request.range == (0, 0):
            good(request)
        else:
            cut(request, body, here, **headers)

    hub.scripts[PATH] = script
    with pytest.raises(NetworkError):
        Pull().run(SOURCE, library, ONCE)
    assert [(part.name, part.done, part.total) for part in kept_parts(library)] == [("x.gguf", here, len(body))]
    hub.requests.clear()


def asked_for(hub: Hub) -> list[tuple[int, int | None] | None]:
    """The stretches that were asked for, but for the byte that is always asked for first."""
    return [request.range for request in hub.requests if request.path == PATH and request.range != (0, 0)]


def test_a_later_pull_fetches_what_is_missing_and_no_more(hub: Hub, library: Library, body: bytes) -> None:
    begin(hub, library, body)
    hub.scripts[PATH] = serve_file(body)
    pull = Pull()
    assert pull.run(SOURCE, library).path.read_bytes() == body
    assert asked_for(hub) == [(150_000, len(body) - 1)]
    assert all(150_000 <= step.done <= len(body) for step in pull.transfers if step.stage == "downloading")
    assert left_in(library) == ["x.gguf"] and kept_parts(library) == []


@pytest.mark.parametrize(
    "now",
    [
        {"ETag": '"another"'},
        {"ETag": '"another"', "X_Linked_ETag": f'"{sha256(b"")}"'},
        {"ETag": None},
        {"ETag": None, "Last_Modified": "Mon, 02 Jan 2006 15:04:05 GMT"},
    ],
)
def test_what_may_be_another_file_is_fetched_anew(
    hub: Hub, library: Library, body: bytes, tmp_path: Path, now: dict[str, object]
) -> None:
    begin(hub, library, body)
    other = make_body(tmp_path, seed=2)
    assert len(other) == len(body)
    now = {name: f'"{sha256(other)}"' if name == "X_Linked_ETag" else value for name, value in now.items()}
    hub.scripts[PATH] = serve_file(other, **now)
    pull = Pull()
    assert pull.run(SOURCE, library).path.read_bytes() == other
    assert "another file than the one begun here" in pull.said[0]


def test_a_file_of_the_same_hash_goes_on_from_another_place(hub: Hub, library: Library, body: bytes) -> None:
    linked = {"X_Linked_ETag": f'"{sha256(body)}"'}
    begin(hub, library, body, **linked)
    hub.scripts["/p/q/resolve/main/x.gguf"] = serve_file(body, ETag='"other"', **linked)
    assert Pull().run("hf:p/q/x.gguf", library).path.read_bytes() == body
    assert [request.range for request in hub.requests][1:] == [(150_000, len(body) - 1)]


def test_another_model_of_the_same_name_is_not_mixed_in(
    hub: Hub, library: Library, body: bytes, tmp_path: Path
) -> None:
    begin(hub, library, body, ETag='"v1"')
    other = make_body(tmp_path, seed=2)
    hub.scripts["/p/q/resolve/main/x.gguf"] = serve_file(other, ETag='"v1"')
    assert Pull().run("hf:p/q/x.gguf", library).path.read_bytes() == other


def test_a_file_that_changes_while_it_comes_is_fetched_anew(
    hub: Hub, library: Library, body: bytes, tmp_path: Path
) -> None:
    other = make_body(tmp_path, seed=2)

    def script(request: Request) -> None:
        serve_file(body if request.number < 3 else other)(request)

    hub.scripts[PATH] = script
    pull = Pull()
    assert pull.run(SOURCE, library, quick(connections=2)).path.read_bytes() == other
    assert any("was changed on the server" in text for text in pull.said)


def test_a_part_that_is_longer_than_its_file_is_cut(hub: Hub, library: Library, body: bytes) -> None:
    begin(hub, library, body)
    with part_of(library).open("ab") as part:
        part.write(bytes(len(body)))
    hub.scripts[PATH] = serve_file(body)
    assert Pull().run(SOURCE, library).path.read_bytes() == body
    assert asked_for(hub) == [(150_000, len(body) - 1)]


def test_a_part_that_is_shorter_than_its_record_is_believed_as_far_as_it_goes(
    hub: Hub, library: Library, body: bytes
) -> None:
    begin(hub, library, body)
    with part_of(library).open("r+b") as part:
        part.truncate(1000)
    hub.scripts[PATH] = serve_file(body)
    assert Pull().run(SOURCE, library).path.read_bytes() == body
    assert asked_for(hub) == [(1000, len(body) - 1)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 2}', b"\xff\xfe", None])
def test_a_part_without_a_record_is_worth_nothing(
    hub: Hub, library: Library, body: bytes, damage: bytes | None
) -> None:
    begin(hub, library, body)
    record = part_of(library).with_name("x.gguf.part.json")
    record.unlink() if damage is None else record.write_bytes(damage)
    hub.scripts[PATH] = serve_file(body)
    assert Pull().run(SOURCE, library).path.read_bytes() == body
    assert asked_for(hub) == [(0, len(body) - 1)]


@pytest.mark.parametrize("done", [[[-5, 100]], [[100, 50]], [[0, 10**12]], [["x", 1]], [[0]], 7])
def test_a_record_that_makes_no_sense_does_no_harm(hub: Hub, library: Library, body: bytes, done: object) -> None:
    begin(hub, library, body)
    record = part_of(library).with_name("x.gguf.part.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"done": done}))
    hub.scripts[PATH] = serve_file(body)
    assert Pull().run(SOURCE, library).path.read_bytes() == body


def test_bytes_that_rotted_in_the_part_are_found(hub: Hub, library: Library, body: bytes) -> None:
    linked = {"X_Linked_ETag": f'"{sha256(body)}"'}
    begin(hub, library, body, **linked)
    with part_of(library).open("r+b") as part:
        part.seek(100_000)
        part.write(b"rot")
    hub.scripts[PATH] = serve_file(body, **linked)
    with pytest.raises(DownloadError, match="came damaged"):
        Pull().run(SOURCE, library)
    assert left_in(library) == [] and kept_parts(library) == []
    assert Pull().run(SOURCE, library).path.read_bytes() == body


def test_a_server_without_ranges_leaves_nothing_to_go_on_with(hub: Hub, library: Library, body: bytes) -> None:
    def script(request: Request) -> None:
        if request.range == (0, 0):
            serve_whole(body)(request)
        else:
            cut(request, body, 100_000)

    hub.scripts[PATH] = script
    with pytest.raises(NetworkError):
        Pull().run(SOURCE, library, ONCE)
    assert kept_parts(library) == []


# -- steering ---------------------------------------------------------------------------------------------------------


class Gate:
    """A good server that sends half of what is asked for, and the rest when it may."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.half_sent, self.opened = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> None:
        first, stop = stretch(request, self.body)
        if stop - first == 1:
            serve_file(self.body)(request)
            return
        span = f"bytes {first}-{stop - 1}/{len(self.body)}"
        tag = f'"{sha256(self.body)[:16]}"'
        request.head(206, Content_Length=stop - first, Content_Range=span, ETag=tag)
        request.send(self.body[first : (first + stop) // 2])
        self.half_sent.set()
        self.opened.wait(LONG_S)
        request.send(self.body[(first + stop) // 2 : stop])


def run_aside(download: Download) -> tuple[threading.Thread, list[object]]:
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(download.run())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_cancel_keeps_the_part_and_the_next_pull_goes_on(hub: Hub, library: Library, body: bytes) -> None:
    gate = Gate(body)
    hub.scripts[PATH] = gate
    half = threading.Event()
    downloads: list[Transfer] = []

    def report(transfer: Transfer) -> None:
        downloads.append(transfer)
        if transfer.done == len(body) // 2:
            half.set()

    download = Download(SOURCE, library, report, options=quick())
    thread, outcome = run_aside(download)
    assert half.wait(LONG_S)
    download.cancel()
    thread.join(LONG_S)
    assert isinstance(outcome[0], Cancelled)
    gate.opened.set()
    assert [part.done for part in kept_parts(library)] == [len(body) // 2]
    hub.requests.clear()
    hub.scripts[PATH] = serve_file(body)
    assert Pull().run(SOURCE, library).path.read_bytes() == body
    assert asked_for(hub) == [(len(body) // 2, len(body) - 1)]


def test_pause_takes_nothing_more_until_resume(hub: Hub, library: Library, tmp_path: Path) -> None:
    body = make_body(tmp_path, kilobytes=2000)  # half of it is more than the one read that is under way
    gate = Gate(body)
    hub.scripts[PATH] = gate
    seen: list[Transfer] = []
    paused, half = threading.Event(), threading.Event()

    def report(transfer: Transfer) -> None:
        seen.append(transfer)
        if transfer.done == len(body) // 2:
            half.set()
        if transfer.stage == "paused":
            paused.set()

    download = Download(SOURCE, library, report, options=quick(clock=SkippingClock(real=True)))
    thread, outcome = run_aside(download)
    assert half.wait(LONG_S), outcome
    download.pause()
    assert paused.wait(LONG_S) and download.paused, outcome
    gate.opened.set()
    thread.join(0.3)
    assert thread.is_alive() and not (library.models_dir / "x.gguf").exists()
    download.resume()
    thread.join(LONG_S)
    assert not isinstance(outcome[0], BaseException)
    assert (library.models_dir / "x.gguf").read_bytes() == body


# -- killed -----------------------------------------------------------------------------------------------------------


def test_a_killed_download_loses_no_more_than_one_piece(tmp_path: Path) -> None:
    """bench/kill_download.py does the same with a larger file, and often."""
    random.seed(5)
    body = make_body(tmp_path, kilobytes=3000)
    with sent_by(tmp_path / "model.gguf", body) as server:
        for number in range(3):
            home = tmp_path / f"home {number}"
            kill_while_pulling(server, home, after_s=random.uniform(0, len(body) / BYTES_PER_S), piece=PIECE)
            sound(server, home, body, piece=PIECE)


def test_unfinished_downloads_are_told_and_removed(hub: Hub, library: Library, body: bytes) -> None:
    begin(hub, library, body)
    (library.incoming_dir / "y.parts.gguf.pip").mkdir()
    (library.incoming_dir / "y.parts.gguf.pip" / "wheel").write_bytes(bytes(5000))
    (library.incoming_dir / "z.parts.gguf.part").write_bytes(bytes(6000))
    x, y, z = kept_parts(library)
    assert (x.name, x.done, x.total, x.source, x.busy) == ("x.gguf", 150_000, len(body), SOURCE, False)
    assert x.n_bytes >= 150_000 and y.n_bytes >= 5000 and z.n_bytes >= 6000
    assert (y.name, y.done, z.name, z.done) == ("y.parts.gguf", 0, "z.parts.gguf", 0)
    assert [part.name for part in remove_parts(library, "y.parts")] == ["y.parts.gguf"]
    assert [part.name for part in remove_parts(library)] == ["x.gguf", "z.parts.gguf"]
    assert list(library.incoming_dir.iterdir()) == []
