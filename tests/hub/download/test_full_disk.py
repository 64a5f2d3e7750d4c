"""Pulling onto a disk that is too small or becomes full, a real one (D03)."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from tests.hub.download.pulling import LONG_S, PIECE, make_body
from tests.hub.download.scripted import Hub, Request, after_probe, sha256, stretch
from tests.small_disk import run_on_small_disk

KNOWN, UNKNOWN = "hf:o/r/x.gguf", "hf:o/r/y.gguf"
PATH = "/o/r/resolve/main/{}.gguf"


def test_a_full_disk_is_told_and_what_came_is_gone_on_with(qchat_home: Path, hub: Hub, tmp_path: Path) -> None:
    body = make_body(tmp_path)
    full = threading.Event()

    def the_second_half_when_full(request: Request) -> None:
        first, stop = stretch(request, body)
        span = f"bytes {first}-{stop - 1}/{len(body)}"
        tag = f'"{sha256(body)[:16]}"'
        request.head(206, Content_Length=stop - first, Content_Range=span, ETag=tag)
        request.send(body[first : len(body) // 2])
        full.wait(LONG_S)
        request.send(body[len(body) // 2 :])

    def chunked(request: Request) -> None:
        request.head(200, Transfer_Encoding="chunked")
        request.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")

    def is_full(request: Request) -> None:
        full.set()
        request.answer(200)

    hub.scripts[PATH.format("x")] = after_probe(the_second_half_when_full, body, 1)
    hub.scripts[PATH.format("y")] = chunked
    hub.scripts["/full"] = is_full
    said = run_on_small_disk(
        qchat_home,
        len(body) * 5 // 4,
        "tests.hub.download.full_disk",
        [KNOWN, UNKNOWN, hub.url, str(len(body))],
    )
    happened = json.loads(said)

    code, text, left = happened["too large"]
    assert code == 1 and f"{len(body):,} bytes are needed" in text and "are free" in text and left == []
    code, text, left = happened["too large, unknown"]
    assert code == 1 and "the disk is full" in text and "Traceback" not in text and left == []
    code, text, left = happened["filled"]
    assert code == 1 and "the disk is full" in text and "make room" in text
    assert left == ["x.gguf.part", "x.gguf.part.json"]
    (done,) = happened["kept"]
    assert len(body) // 2 - PIECE <= done <= len(body) // 2
    assert "x.gguf" in happened["shown"][1] and f"qchat models pull {KNOWN}" in happened["shown"][1]
    assert happened["room"][0] == 0, happened["room"]
    asked = [request.range for request in hub.requests if request.path == PATH.format("x")]
    assert asked[-1] == (done, len(body) - 1)
    assert happened["removed"][0] == 0
    assert happened["full"][0] == 1 and "the disk is full" in happened["full"][1]
    code, text, left = happened["cleared"]
    assert code == 0 and "removed 1 unfinished" in text and left == []
