"""Whether a model fits in the memory that is free: its weights, its KV cache and what the program itself needs.

The cache grows with the conversation, so there are two questions: can a chat begin, and can it use the whole context?
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

KV_BYTES: Mapping[str, float] = MappingProxyType({"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32})
"""Bytes of one cached number, for each value of the setting `kv`; q8_0 stores 32 numbers in 34 bytes."""

ROOM_BYTES = 300_000_000  # program, kernels and the tokenizer of a large vocabulary, with something to spare
ROOM_SHARE = 0.06  # of the weights: repacking may pad them by as much
SHORT_CHAT = 4096  # tokens without which starting a chat is no use

Verdict = Literal["fits", "tight", "too large", "unknown"]


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, kv: str) -> int:
    """Bytes that the keys and values of one token take in a cache of kind `kv`."""
    return round(2 * layers * kv_heads * head_dim * KV_BYTES[kv])


@dataclass(frozen=True)
class Fit:
    """What a model needs beside what is free, in bytes; `free` is None where the system does not tell."""

    weights: int
    kv_per_token: int
    context: int  # tokens that a conversation may grow to
    free: int | None

    def needed(self, tokens: int) -> int:
        """Bytes for a conversation of `tokens`."""
        return round(self.weights * (1 + ROOM_SHARE)) + ROOM_BYTES + self.kv_per_token * tokens

    @property
    def least(self) -> int:
        """Bytes without which a chat is not worth beginning."""
        return self.needed(min(self.context, SHORT_CHAT))

    @property
    def most(self) -> int:
        """Bytes with the whole context in use."""
        return self.needed(self.context)

    @property
    def tokens(self) -> int | None:
        """How long a conversation can grow in what is free; None where that is not known."""
        if self.free is None:
            return None
        return min(self.context, max(0, self.free - self.needed(0)) // max(1, self.kv_per_token))

    @property
    def verdict(self) -> Verdict:
        """`tight` is a model that runs, but not to the end of its context."""
        if self.free is None:
            return "unknown"
        if self.most <= self.free:
            return "fits"
        return "tight" if self.least <= self.free else "too large"


def free_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this process could take now without swapping; None where the system has no such number.

    The least of what the machine has and what is left to each control group around this process, whose page cache
    counts as free. Sources: proc(5), and admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the Linux kernel.
    """
    try:
        machine = re.search(r"MemAvailable:\s+(\d+) kB", (proc / "meminfo").read_text())
        groups = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return None
    if machine is None:
        return None
    free = [int(machine[1]) * 1024]
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            free += _left(cgroups, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            free += _left(cgroups / "memory", path, *files)
    return max(0, min(free))


def _left(root: Path, path: str, limit: str, usage: str, cached: str) -> list[int]:
    """Bytes left in the group `path` and those above it, as far as they can be seen from here and have a limit."""
    found = []
    folder = root / path.lstrip("/")
    for group in (folder, *folder.parents):
        if not group.is_relative_to(root):
            break
        try:
            most, used = int((group / limit).read_text()), int((group / usage).read_text())
            pages = re.search(rf"(?m)^{cached} (\d+)$", (group / "memory.stat").read_text())
        except (OSError, ValueError):  # not visible here, or "max"
            continue
        found.append(most - used + (int(pages[1]) if pages else 0))
    return found
