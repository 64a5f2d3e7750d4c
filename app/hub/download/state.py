"""What is known of a part, in a small file beside it: which remote file it belongs to and which of its bytes are here.

A part without a state that can be read is worth nothing: it is fetched anew.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.hub.download.identity import Identity
from app.hub.download.spans import Spans

VERSION = 1


@dataclass(frozen=True)
class State:
    """`model` is the file name that the whole gets, `source` what was asked for, `place` the URL without its query.

    `whole` counts the bytes of the model, whose parts are files of their own.
    """

    model: str
    source: str
    place: str
    identity: Identity
    whole: int | None
    done: tuple[tuple[int, int], ...] = ()

    def belongs_to(self, other: State) -> bool:
        """Whether a part with this state can be gone on with for `other`: it is certainly the same remote file."""
        same_place = self.place == other.place
        same_hash = self.identity.sha256 is not None and self.identity.sha256 == other.identity.sha256
        return (same_place or same_hash) and self.identity.agrees(other.identity) is True


def place_of(url: str) -> str:
    """`url` without its query, which may hold a signature that is nobody's business."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def state_path(part: Path) -> Path:
    """Where the state of a part is kept."""
    return part.with_name(part.name + ".json")


def save(part: Path, state: State) -> None:
    """Write the state of `part` in one step. What it says of the part has to be on the disk already. Raises OSError."""
    identity = {
        "size": state.identity.size,
        "sha256": state.identity.sha256,
        "etag": state.identity.etag,
        "modified": state.identity.modified,
    }
    document = {
        "version": VERSION,
        "model": state.model,
        "source": state.source,
        "place": state.place,
        "identity": identity,
        "whole": state.whole,
        "done": state.done,
    }
    path = state_path(part)
    draft = path.with_name(path.name + ".new")
    try:
        with open(draft, "w", encoding="utf-8", opener=_private) as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:  # the disk is full
        draft.unlink(missing_ok=True)
        raise


def load(part: Path) -> State | None:
    """The state of `part`; None where there is none or it is damaged or of another version."""
    try:
        document = json.loads(state_path(part).read_bytes())
        return _state(document) if document["version"] == VERSION else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _state(document: dict[str, Any]) -> State:
    said = document["identity"]
    texts = (said["sha256"], said["etag"], said["modified"])
    size, whole = said["size"], document["whole"]
    names = (document["model"], document["source"], document["place"])
    if not all(isinstance(name, str) for name in names):
        raise TypeError
    if not all(count is None or isinstance(count, int) for count in (size, whole)):
        raise TypeError
    if not all(text is None or isinstance(text, str) for text in texts):
        raise TypeError
    done = [(int(first), int(stop)) for first, stop in document["done"] if 0 <= first <= stop]
    return State(*names, Identity(size, *texts), whole, () if size is None else tuple(Spans(done).within(size)))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
