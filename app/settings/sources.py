"""What is read from one source of settings: the config file, the environment, and the checks that they share.

A name or value that is not allowed is an error that says which file or variable holds it, never ignored: a misspelled
setting that silently does nothing is the worst kind.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import SettingsError, nearest, printable
from app.settings.rule import Rule, Value
from app.settings.servers import KEY_VARIABLES, SERVERS, ServerTable, read_servers
from app.settings.settings import FREE_TABLES, RULES

# QCHAT_* variables that are not settings: places, debugging, and switches of the engine
OTHER_VARIABLES = frozenset(
    {"QCHAT_HOME", "QCHAT_CONFIG", "QCHAT_DEBUG", "QCHAT_ISA", "QCHAT_TRACE"}  # documented in README.md
)


@dataclass(frozen=True)
class ConfigFile:
    """What stands in one TOML file: settings by dotted key, and servers by name."""

    values: Mapping[str, Value]
    servers: Mapping[str, ServerTable]


def read_config(path: Path) -> ConfigFile:
    """What stands in one TOML file. SettingsError names the file, the key and what is allowed."""
    where = printable(str(path), 400)
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"cannot read {where}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = printable(str(error), 200)
        raise SettingsError(f"{where} is not valid TOML: {reason}", "'qchat config edit'") from error
    servers = read_servers(tables.pop(SERVERS, {}), path)
    return ConfigFile({key: checked(key, value, where) for key, value in _flatten(tables)}, servers)


def read_environment() -> dict[str, Value]:
    """The QCHAT_* settings that are set, by dotted key; an empty variable counts as unset.

    SettingsError names the variable and what is allowed.
    """
    known = {variable(key): key for key in RULES}
    found = {}
    for name, text in os.environ.items():
        if not name.startswith("QCHAT_") or name.startswith(KEY_VARIABLES) or name in OTHER_VARIABLES or not text:
            continue
        if name not in known:
            raise SettingsError(
                f"the environment variable {printable(name)} is not a setting of qchat", _suggest(name, list(known))
            )
        found[known[name]] = text
    return {key: _parsed(key, text) for key, text in found.items()}


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return "QCHAT_" + key.replace(".", "_").upper()


def checked(key: str, value: Any, where: str) -> Value:
    """`value` as the type of the setting `key`. SettingsError names `where` it stands and what is allowed."""
    rule = Rule(str) if key.startswith(FREE_TABLES) else RULES.get(key)
    if rule is None:
        raise SettingsError(f"{where}: no setting is called {printable(key)}", _suggest(key, list(RULES)))
    try:
        return rule.check(value)
    except ValueError as error:
        raise SettingsError(f"{where}: {key} = {printable(repr(value))} is not allowed", f"allowed: {error}") from error


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and prefix == "":
            yield from _flatten(value, f"{name}.")
        else:
            yield prefix + name, value


def _parsed(key: str, text: str) -> Value:
    try:
        return RULES[key].parse(text)
    except ValueError as error:
        raise SettingsError(f"{variable(key)}={printable(text)} is not allowed", f"allowed: {error}") from error


def _suggest(name: str, known: list[str]) -> str:
    near = nearest(name, [*known, f"{SERVERS}.{name.partition('.')[2]}"] if "." in name else known)
    return f"did you mean {near}?" if near else "'qchat config show' lists them all"
