"""The `[servers.NAME]` tables of the config file: what each may hold, and what a table that was read holds.

They are checked like every other setting: a misspelled name or a wrong value is an error that says where it stands and
what is allowed, and never repeats a secret. What a table means for a connection, its `kind` decides: the name of a
backend.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import urlsplit

from app.errors import SettingsError, nearest, printable
from app.settings.rule import Rule, Value
from app.settings.secret import HIDDEN, Secret

LOCAL = "local"  # the backend of this process
SERVERS = "servers"
KEY_VARIABLES = "QCHAT_KEY_"  # and the name of a server: what holds its key
RESERVED = (LOCAL, "list", "login", "logout")  # the engine, and the commands of `qchat backends`
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # typed before the slash of `-m NAME/MODEL`
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110

SERVER_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "kind": Rule(str),
        "url": Rule(str),
        "model": Rule(str),
        "key": Rule(str),
        "key_env": Rule(str),
        "connect_timeout": Rule(float, 0, 3600, above_low=True),
        "first_token_timeout": Rule(float, 0, 86400, above_low=True),
        "idle_timeout": Rule(float, 0, 86400, above_low=True),
    }
)
_TABLES = ("headers", "body")


@dataclass(frozen=True)
class ServerTable:
    """One `[servers.NAME]` table. A timeout that is None is the backend's own; all are in seconds."""

    name: str
    kind: str = "openai"  # the backend that speaks to it
    url: str = ""
    model: str = ""  # the one that answers where none is named
    key: Secret | None = None
    key_env: str = ""  # the environment variable that holds the key
    connect_timeout: float | None = None
    first_token_timeout: float | None = None
    idle_timeout: float | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)  # merged into every request
    file: str = ""  # where it stands

    @property
    def shown_url(self) -> str:
        """The address without its query, which may carry a key."""
        return self.url.partition("?")[0] + (f"?{HIDDEN}" if "?" in self.url else "")

    @property
    def secret(self) -> str:
        """The name of what nobody else may read in this table, or "" if there is nothing."""
        return "key" if self.key else "headers" if self.headers else "url" if "?" in self.url else ""

    def items(self) -> Iterator[tuple[str, Value]]:
        """What is given, by the name in the table, with "set" in place of what is secret."""
        for key in SERVER_RULES:
            value = getattr(self, key)
            if isinstance(value, Secret):
                yield key, "set"
            elif key == "url" and value:
                yield key, self.shown_url
            elif value not in ("", None):
                yield key, value
        for header in self.headers:
            yield f"headers.{header}", "set"
        for key, value in self.body.items():
            yield f"body.{key}", value if isinstance(value, (str, int, float)) else json.dumps(value)


def shown_address(url: str) -> str:
    """An address that is refused, for the refusal: without its query, and without what may be a password.

    Where an @ is, nobody can tell what was meant to stand before it.
    """
    found = _SCHEME.match(url)
    scheme, rest = (found[0], url[found.end() :]) if found else ("", url)
    if "@" in rest:
        return scheme + HIDDEN
    address, mark, _ = rest.partition("?")
    return scheme + address + (f"?{HIDDEN}" if mark else "")


def key_variable(name: str) -> str:
    """The environment variable that holds the key of the server `name`, whatever its table says."""
    return KEY_VARIABLES + re.sub(r"[^A-Z0-9]", "_", name.upper())


def read_servers(tables: Any, file: Path) -> dict[str, ServerTable]:
    """The tables under `[servers]` of `file`, by name. SettingsError names the file, the key and what is allowed.

    A file that holds a key or a header must be readable for its owner alone.
    """
    where = printable(str(file), 400)
    if not isinstance(tables, dict):
        raise SettingsError(f"{where}: {SERVERS} must hold tables", "as in [servers.work]")
    servers: dict[str, ServerTable] = {}
    variables: dict[str, str] = {}
    for name, table in tables.items():
        servers[name] = _read(name, table, where)
        twin = variables.setdefault(key_variable(name), name)
        if twin != name:
            raise SettingsError(
                f"{where}: the servers {printable(twin)} and {printable(name)} would share {key_variable(name)}",
                "give one of them a name that differs in more than case and punctuation",
            )
    secret = next((server for server in servers.values() if server.secret), None)
    if secret and os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise SettingsError(
            f"{where} holds {SERVERS}.{secret.name}.{secret.secret} and others can read it: that is refused",
            f"'chmod 600 {where}', or take it out and use 'qchat backends login {secret.name}'",
        )
    return servers


def _read(name: str, table: Any, where: str) -> ServerTable:
    place = f"{where}: {SERVERS}.{printable(name)}"
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise SettingsError(
            f"{place}: this cannot be the name of a server",
            f"allowed: letters, digits, _ . and -, and not {', '.join(RESERVED)}",
        )
    if not isinstance(table, dict):
        _refuse(place, "a table", f"as in [{SERVERS}.{name}]")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key == "headers":
            fields[key] = _headers(f"{place}.headers", value)
        elif key == "body":
            fields[key] = _body(f"{place}.body", value)
        else:
            fields[key] = _checked(place, key, value)
    if "key" in fields:
        fields["key"] = Secret(fields["key"])
    return ServerTable(name, file=where, **fields)


def _checked(place: str, key: str, value: Any) -> Value:
    rule = SERVER_RULES.get(key)
    if rule is None:
        known = [*SERVER_RULES, *_TABLES]
        near = nearest(key, known)
        hint = f"did you mean {near}?" if near else f"a server has: {', '.join(known)}"
        raise SettingsError(f"{place}: no setting of a server is called {printable(key)}", hint)
    try:
        checked = rule.check(value)
    except ValueError as error:
        _refuse(f"{place}.{key}", str(error), None if key == "key" else f"it is {printable(repr(value))}")
    if key == "url":
        return _url(f"{place}.url", str(checked))
    if key in ("key", "key_env") and (not checked or not str(checked).isascii() or not str(checked).isprintable()):
        _refuse(f"{place}.{key}", "printable ASCII text", None)
    return checked


def _url(place: str, text: str) -> str:
    """An address as a person writes it; the backend decides what a missing scheme or path means."""
    text = text.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        fine = bool(parts.hostname) and parts.scheme in ("http", "https") and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or not text.isprintable() or " " in text:
        _refuse(place, 'an address, as in "http://localhost:8000/v1"', f"it is {printable(shown_address(text))}")
    if parts.username is not None:
        _refuse(place, "an address without a name and password", "a server's key is set by 'qchat backends login'")
    return text


def _headers(place: str, value: Any) -> dict[str, Secret]:
    if not isinstance(value, dict):
        _refuse(place, "a table of texts", 'as in headers = { "X-Team" = "blue" }')
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or not isinstance(text, str) or not _is_value(text):
            _refuse(f"{place}.{printable(name)}", "a header's name with printable ASCII text", None)
    return {name: Secret(text) for name, text in value.items()}


def _is_value(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _body(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(place, "a table", "as in body = { top_k = 20 }")
    for name, item in value.items():
        try:
            json.dumps(item, allow_nan=False)
        except (TypeError, ValueError):
            _refuse(f"{place}.{printable(name)}", "what JSON can hold", "dates, inf and nan are not")
    return value


def _refuse(key: str, allowed: str, hint: str | None) -> NoReturn:
    raise SettingsError(f"{key} must be {allowed}", hint)
