"""Every setting there is: what it may be, and the values that it has once all sources have been read.

The defaults live in one commented file that ships with the package, config/defaults.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from app.settings.rule import OWN, Rule, Value
from app.settings.servers import ServerTable

KEYS = "keys."  # the table of key bindings: its names are the app's actions, which settings do not know
FOLDERS = "folders."  # the table of more folders with models: a person chooses the names
FREE_TABLES = (KEYS, FOLDERS)  # any name with text

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "model": Rule(str),
        "backend": Rule(str),
        "system": Rule(str),
        "thinking": Rule(str, choices=("on", "off"), own=True),
        "show_thinking": Rule(bool),
        "max_tokens": Rule(int, 1, 10_000_000, also=-1),
        "ctx": Rule(int, 16, 10_000_000, also=0),
        "kv": Rule(str, choices=("f16", "f32", "q8_0")),
        "threads": Rule(int, 0, 1024),
        "speculation": Rule(bool),
        "device": Rule(str, choices=("auto", "cpu", "cuda")),
        "lm_head": Rule(str, choices=("q4_0",), own=True),
        "packed_cache_gb": Rule(float, 0, 1_000_000),
        "other_stores": Rule(bool),
        "download_connections": Rule(int, 1, 16),
        "download_limit_mb": Rule(float, 0.1, 1_000_000, also=0),
        "theme": Rule(str),
        "sampling.temperature": Rule(float, 0, 100, own=True),
        "sampling.top_k": Rule(int, 0, 1_000_000_000, own=True),
        "sampling.top_p": Rule(float, 0, 1, own=True),
        "sampling.min_p": Rule(float, 0, 1, own=True),
        "sampling.repeat_penalty": Rule(float, 0, 10, own=True, above_low=True),
        "sampling.presence_penalty": Rule(float, -2, 2, own=True),
        "sampling.frequency_penalty": Rule(float, -2, 2, own=True),
        "sampling.seed": Rule(int, 0, 2**63 - 1, own=True),
    }
)


@dataclass(frozen=True)
class SamplingSettings:
    """What the person asked for; None leaves a value to the model."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    seed: int | None


@dataclass(frozen=True)
class Settings:
    """Every setting, resolved. `thinking` and `lm_head` are None for the model's own; `sources` says who decided."""

    model: str  # "" is for the backend to choose
    backend: str  # the name of a server, or of an installed backend
    system: str
    thinking: bool | None
    show_thinking: bool
    max_tokens: int  # -1: to the end of the context
    ctx: int  # 0: the model's own
    kv: str
    threads: int  # 0: physical cores
    speculation: bool
    device: str
    lm_head: str | None
    packed_cache_gb: float  # 10^9 bytes; 0 keeps nothing
    other_stores: bool
    download_connections: int
    download_limit_mb: float  # 10^6 bytes a second; 0: no limit
    theme: str
    sampling: SamplingSettings
    servers: Mapping[str, ServerTable]  # the [servers.NAME] tables, by name
    keys: Mapping[str, str]  # action -> keys, from the [keys] table; the app checks them
    folders: Mapping[str, str]  # name -> path, from the [folders] table; the library checks them
    sources: Mapping[str, str]  # "sampling.top_p" -> "the flag", "QCHAT_SAMPLING_TOP_P", a file's path or "default"

    def named(self, model: str) -> str:
        """`model` as a person names it, and as `model` takes it: with its server, if a server answers."""
        return f"{self.backend}/{model}" if self.backend in self.servers else model

    def items(self) -> Iterator[tuple[str, Value]]:
        """Every setting as written in config.toml, so None is "model" again and thinking is "on" or "off"."""
        for key in RULES:
            owner: Any = self.sampling if key.startswith("sampling.") else self
            value = getattr(owner, key.removeprefix("sampling."))
            if key == "thinking" and value is not None:
                value = "on" if value else "off"
            yield key, OWN if value is None else value
        for action, keys in self.keys.items():
            yield KEYS + action, keys
        for name, folder in self.folders.items():
            yield FOLDERS + name, folder
