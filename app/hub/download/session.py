"""The values that travel through a pull: what is wanted, what the server has of it, and what all files share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.errors import printable
from app.hub.download.failures import Failure
from app.hub.download.identity import Identity
from app.hub.download.limit import SpeedLimit
from app.hub.download.options import Options
from app.hub.download.transport import Address, Answer, Transport
from app.hub.transfer import Notify, Steering


@dataclass(frozen=True)
class Wanted:
    """A file to fetch into `part`: that of the model `model`, or the file `number`, from 0, of its `count` files.

    `source` is how a person wrote it; `sha256` is the catalogue's.
    """

    address: Address
    part: Path
    model: str
    source: str
    sha256: str | None = None
    number: int = 0
    count: int = 1

    @property
    def name(self) -> str:
        """For a person."""
        return printable(self.part.name.removesuffix(".part"))

    @property
    def note(self) -> str:
        """Which file of the model it is, for a person; nothing where there is one."""
        return f"part {self.number + 1} of {self.count}" if self.count > 1 else ""


@dataclass(frozen=True)
class Session:
    """What all files of one pull share."""

    transport: Transport
    options: Options
    limit: SpeedLimit
    steering: Steering
    notify: Notify


@dataclass(frozen=True)
class Remote:
    """The file to fetch. `ranges`: stretches of it can be asked for. `refused` turns another answer into a failure."""

    address: Address
    identity: Identity
    ranges: bool
    refused: Callable[[Answer], Failure]


def next_try(failure: Failure, left: float) -> str:
    """What is said while the next attempt is waited for."""
    return f"{failure.error.message}; next try in {math.ceil(left)} s"
