"""What tells one file of a server from another: its size, its hash, and what HTTP calls validators (RFC 9110, 8.8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Identity:
    """As much as a server has said about a file. `size` in bytes."""

    size: int | None = None
    sha256: str | None = None
    etag: str | None = None
    modified: str | None = None

    def agrees(self, other: Identity) -> bool | None:
        """Whether both are one file, by the best thing that both know; None where they know nothing in common."""
        if None not in (self.size, other.size) and self.size != other.size:
            return False
        for mine, theirs in ((self.sha256, other.sha256), (self.etag, other.etag), (self.modified, other.modified)):
            if mine is not None and theirs is not None:
                return mine == theirs
        return None

    @property
    def certain(self) -> bool:
        """Whether it can be recognised later."""
        return self.size is not None and (self.sha256 or self.etag or self.modified) is not None


def sha256_in(text: str | None) -> str | None:
    """The SHA-256 that an entity tag of the Hugging Face hub holds, for a file in its large file storage."""
    found = _SHA256.fullmatch((text or "").strip().removeprefix("W/").strip('"').lower())
    return found[0] if found else None


def validators(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    """(entity tag, date of the last change). A weak tag stands for the meaning and not for the bytes: it is none."""
    etag = headers.get("etag")
    return (None if etag is None or etag.startswith("W/") else etag), headers.get("last-modified")
