"""The file in which a download grows: how far it may be ahead of what is recorded of it."""

from __future__ import annotations

import threading
from pathlib import Path

from app.hub.download.identity import Identity
from app.hub.download.part import Part
from app.hub.download.state import State, load
from tests.hub.download.pulling import LONG_S

PIECE = 1000


def test_never_more_than_a_piece_is_ahead_of_the_record(tmp_path: Path) -> None:
    path, data = tmp_path / "x.gguf.part", bytes(range(250)) * 10
    part = Part.begin(path, State("x.gguf", "s", "http://h/x", Identity(len(data), etag='"v"'), len(data)), PIECE)
    behind = threading.Semaphore(0)
    part.on_ahead = behind.release
    claim = part.claim(len(data))
    assert claim is not None
    writer = threading.Thread(target=part.write, args=(claim, data), daemon=True)
    writer.start()
    for here in (1000, 2000, 2500):
        assert behind.acquire(timeout=LONG_S)
        assert claim.at == path.stat().st_size == here
        part.record()
        assert load(path) == part.state and part.state.done == ((0, here),)
    writer.join(LONG_S)
    part.close()
    assert path.read_bytes() == data
