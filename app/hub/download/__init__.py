"""Fetching models: `pull` for whoever waits for one, `Download` for whoever shows it and lets a person steer it.

gather      a source becomes a checked model in the library: lock, fetch, check, rename
handle      the same as a thing that can be watched, paused and cancelled
from_web    the files of a model behind URLs; check: whether what came is one
fetch       one file: leads the connections, the retries, the record, the hash
connection  one request for a stretch of a file, in a thread; transport: HTTP; body: the bytes of an answer;
            refusal: what a status means
part        the file in which it grows; state: what is recorded of it; spans: which bytes are here
kept        what is left of downloads that did not end, and removing it
"""

from __future__ import annotations

from app.hub.download.gather import pull
from app.hub.download.handle import Download

__all__ = ["Download", "pull"]
