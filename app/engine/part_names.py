"""The names of the files of a split model: NAME-00001-of-00003.gguf, as `llama-gguf-split` writes them.

One place for everybody who has to know that several files are one model: who lists, fetches, checks or loads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_PARTS = 1000  # a model of 2 TB in the smallest pieces that anybody publishes

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)


@dataclass(frozen=True)
class PartName:
    """What the name of a part says. `number` counts from 1."""

    stem: str
    number: int
    count: int
    suffix: str = ".gguf"

    @classmethod
    def read(cls, file_name: str) -> PartName | None:
        """None where `file_name` is not the name of a part."""
        found = _PART.fullmatch(file_name)
        if found is None:
            return None
        number, count = int(found["number"]), int(found["count"])
        return cls(found["stem"], number, count, found["suffix"]) if 1 <= number <= count <= MAX_PARTS else None

    @property
    def all(self) -> list[str]:
        """The names of all parts, in order."""
        numbers = range(1, self.count + 1)
        return [f"{self.stem}-{number:05d}-of-{self.count:05d}{self.suffix}" for number in numbers]
