"""What a person has said about one server, as the backend for it gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.settings import Secret

CONNECT_S, FIRST_TOKEN_S, IDLE_S = 10.0, 600.0, 120.0


@dataclass(frozen=True)
class ServerSettings:
    """One server. The times are seconds without any sign of life, each for one stage of an answer."""

    name: str  # as the person calls it
    kind: str  # the backend that speaks its language: "openai", "ollama"
    url: str = field(repr=False)  # as the person wrote it; it may carry a key
    model: str = ""  # "": the one that the server offers
    key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields of every request for an answer
    connect_s: float = CONNECT_S
    first_token_s: float = (
        FIRST_TOKEN_S  # from the request to the first piece of the reply: a long prompt is read in it
    )
    idle_s: float = IDLE_S  # between two pieces of a reply
