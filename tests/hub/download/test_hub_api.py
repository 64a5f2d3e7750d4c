"""The hub's list of files: every page of it, of the revision and the path that are meant, and what is no list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.errors import DownloadError
from app.hub.download.failures import Failure
from app.hub.download.hub_api import MAX_PAGES, HubFile, find, list_files
from app.hub.download.transport import Address, Answer, Transport
from tests.hub.download.scripted import Hub, Request

TREE = "/api/models/o/r/tree/main"
TOKEN = "hf_secret"


def refused(answer: Answer, _page: Address) -> Failure:
    return Failure(DownloadError(f"refused with {answer.status}"))


def address(hub: Hub, path: str = "x.gguf", revision: str = "main") -> Address:
    return Address(f"{hub.url}/o/r/resolve/{revision}/{path}", TOKEN, "o/r")


def files(*names: str) -> bytes:
    return json.dumps([{"type": "file", "path": name, "size": 3} for name in names]).encode()


def names(hub: Hub, transport: Transport) -> list[str]:
    return [file.path for file in list_files(transport, address(hub), refused)]


def test_all_folders_are_asked_for_and_only_files_are_told(hub: Hub, transport: Transport) -> None:
    entries: list[Any] = [
        {"type": "directory", "path": "sub", "size": 0},
        {"type": "file", "path": "sub/x.gguf", "size": 3, "lfs": {"oid": "A" * 64}},
        {"type": "file", "path": "y.gguf", "size": 4, "lfs": None},
    ]
    hub.scripts[TREE] = lambda request: request.answer(200, json.dumps(entries).encode())
    found = list(list_files(transport, address(hub), refused))
    assert found == [HubFile("sub/x.gguf", 3, "a" * 64), HubFile("y.gguf", 4, None)]
    (request,) = hub.requests
    assert request.path == f"{TREE}?recursive=true" and request.headers["authorization"] == f"Bearer {TOKEN}"


def test_the_next_page_is_the_one_that_is_called_so(hub: Hub, transport: Transport) -> None:
    def tree(request: Request) -> None:
        links = {
            "recursive=true": f'<{hub.url}{TREE}?a=0>; rel="first", <{hub.url}{TREE}?a=2>; rel="next"',
            "a=2": f"<{hub.url}{TREE}?a=3>; rel=next",
            "a=3": f'<{hub.url}{TREE}?a=2>; rel="prev"',
        }
        query = request.path.partition("?")[2]
        request.answer(200, files(f"{query}.gguf"), Link=links[query])

    hub.scripts[TREE] = tree
    assert names(hub, transport) == ["recursive=true.gguf", "a=2.gguf", "a=3.gguf"]


def test_a_list_without_end_is_read_so_far(hub: Hub, transport: Transport) -> None:
    def tree(request: Request) -> None:
        link = f'<{TREE}?more>; rel="next"' if len(hub.requests) < 2 * MAX_PAGES else ""
        request.answer(200, files("x.gguf"), Link=link)

    hub.scripts[TREE] = tree
    assert len(names(hub, transport)) == MAX_PAGES


@pytest.mark.parametrize(
    ("asked", "revision", "path"),
    [
        ("x.gguf", "main", "x.gguf"),
        ("sub/a%20b.gguf", "main", "sub/a b.gguf"),
        ("x.gguf?download=true", "v1", "x.gguf"),
    ],
)
def test_a_file_is_found_by_its_path_in_its_revision(
    hub: Hub, transport: Transport, asked: str, revision: str, path: str
) -> None:
    hub.scripts[f"/api/models/o/r/tree/{revision}"] = lambda request: request.answer(200, files("other.gguf", path))
    assert find(transport, address(hub, asked, revision), refused) == HubFile(path, 3, None)
    assert find(transport, address(hub, "no.gguf", revision), refused) is None


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}x", b"7", b'["x"]', b'[{"type": "file"}]', b'[{"type": "file", "path": 1, "size": "x"}]'],
)
def test_what_is_no_list_is_told_and_not_asked_for_again(hub: Hub, transport: Transport, body: bytes) -> None:
    hub.scripts[TREE] = lambda request: request.answer(200, body)
    with pytest.raises(Failure, match="gives no list of files") as failure:
        names(hub, transport)
    assert failure.value.lasting


def test_a_refused_list_is_what_the_caller_makes_of_it(hub: Hub, transport: Transport) -> None:
    hub.scripts[TREE] = lambda request: request.answer(403)
    with pytest.raises(Failure, match="refused with 403"):
        names(hub, transport)
