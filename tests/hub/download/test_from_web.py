"""The files of one pull together: room for all of them, how many bytes they are, and what is done once."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import DownloadError, NetworkError
from app.hub.download.transport import Transport
from app.hub.library import Library
from app.settings import paths, private_dir
from tests.hub.download.pulling import PATIENT, Pull, make_body, quick, with_tries
from tests.hub.download.scripted import Hub, Request, cut, is_probe, serve_file, sha256
from tests.hub.files import left_in, some_tensors, write_gguf

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"
SOURCE, PARTS = "hf:o/r/x.gguf", "hf:o/r/p-00001-of-00003.gguf"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture
def parts(hub: Hub, tmp_path: Path) -> dict[str, bytes]:
    """A model in three files on the hub, by their paths."""
    bodies = {}
    for number in range(3):
        path = tmp_path / f"p-{number + 1:05d}-of-00003.gguf"
        write_gguf(path, some_tensors(seed=number + 1), {"split.no": number, "split.count": 3})
        bodies[f"/o/r/resolve/main/{path.name}"] = path.read_bytes()
        path.unlink()
    hub.scripts |= {path: serve_file(body) for path, body in bodies.items()}
    return bodies


def free(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=n_bytes))


def test_parts_that_do_not_fit_together_are_refused_before_the_first_comes(
    hub: Hub, library: Library, parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sum(map(len, parts.values()))
    free(monkeypatch, whole - 1)
    with pytest.raises(DownloadError, match=f"{whole:,} bytes are needed .* {whole - 1:,} are free"):
        Pull().run(PARTS, library)
    assert all(is_probe(request) for request in hub.requests if request.path in parts)
    free(monkeypatch, whole)
    assert Pull().run(PARTS, library).size == whole


def test_what_is_here_already_needs_no_room(
    hub: Hub, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = make_body(tmp_path)
    good = serve_file(body)
    hub.scripts[PATH] = lambda request: good(request) if is_probe(request) else cut(request, body, 150_000)
    with pytest.raises(NetworkError):
        Pull().run(SOURCE, library, quick(with_tries(PATIENT, 1)))
    hub.scripts[PATH] = good
    free(monkeypatch, len(body) - 150_000 - 1)
    with pytest.raises(DownloadError, match=f"{len(body) - 150_000:,} bytes are needed"):
        Pull().run(SOURCE, library)
    free(monkeypatch, len(body) - 150_000)
    assert Pull().run(SOURCE, library).path.read_bytes() == body


def test_a_model_of_which_a_part_has_no_known_size_has_none(
    hub: Hub, library: Library, parts: dict[str, bytes]
) -> None:
    unknown, body = list(parts.items())[1]

    def chunked(request: Request) -> None:
        request.head(200, Transfer_Encoding="chunked")
        request.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    hub.scripts[unknown] = chunked
    pull = Pull()
    assert pull.run(PARTS, library).size == sum(map(len, parts.values()))
    assert {step.total for step in pull.transfers if step.stage == "downloading"} == {None}


def test_the_hash_of_a_catalogue_is_not_that_of_a_part(
    qchat_home: Path, library: Library, parts: dict[str, bytes]
) -> None:
    private_dir(paths().config_file.parent)
    entry = f'[split]\nsource = "hf:o/r/p.gguf"\nparts = 3\nsha256 = "{sha256(b"".join(parts.values()))}"\n'
    paths().catalogue_file.write_text(entry)
    assert Pull().run("split", library).size == sum(map(len, parts.values()))


def test_a_file_that_was_verified_while_it_came_is_not_read_again(
    hub: Hub, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = make_body(tmp_path)
    hub.scripts[PATH] = serve_file(body, X_Linked_ETag=f'"{sha256(body)}"')
    monkeypatch.delattr("app.hub.download.gather.GrowingHash")
    Pull().run(SOURCE, library)
    assert left_in(library) == ["x.gguf"]


@pytest.mark.parametrize("status", [200, 404])
def test_the_connections_of_a_pull_end_with_it(
    hub: Hub, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    closed: list[Transport] = []
    close = Transport.close
    monkeypatch.setattr(Transport, "close", lambda transport: (closed.append(transport), close(transport)))
    hub.scripts[PATH] = serve_file(make_body(tmp_path)) if status == 200 else lambda request: request.answer(404)
    try:
        Pull().run(SOURCE, library)
    except DownloadError:
        assert status == 404
    assert len(closed) == 1
