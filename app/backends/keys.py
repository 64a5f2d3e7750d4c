"""API keys of servers: where each may be kept, in the order in which the places are asked.

First the environment (QCHAT_KEY_NAME, or the variable that the server's table names), then the config file, which must
be private, then the keyring of the system. OPENAI_API_KEY goes to api.openai.com and to nobody else. Which servers have
a key in the keyring is written down beside the chats, because asking a keyring takes time and may ask for a password:
one that holds nothing is left in peace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.errors import KeyringError, UsageError, printable
from app.settings import Secret, ServerTable, key_variable, paths, private_dir

if TYPE_CHECKING:
    from types import ModuleType

SERVICE = "qchat"
KEYRING = "the keyring"
_OPENAI_HOST, _OPENAI_VARIABLE = "api.openai.com", "OPENAI_API_KEY"


@dataclass(frozen=True)
class FoundKey:
    """A key, and the place it is kept in, for a person: "QCHAT_KEY_WORK", a file, "the keyring"."""

    secret: Secret
    origin: str


def find_key(server: ServerTable) -> FoundKey | None:
    """The key of a server. Raises SettingsError for one that cannot be a key, KeyringError if it cannot be read."""
    for variable in (key_variable(server.name), server.key_env):
        if variable and (key := os.environ.get(variable)):
            return FoundKey(check_key(key, variable), variable)
    if server.key:
        return FoundKey(server.key, server.file)
    if server.name in _in_keyring():
        with _keyring() as keyring:
            if key := keyring.get_password(SERVICE, server.name):
                return FoundKey(check_key(key, KEYRING), KEYRING)
    if _is_openai(server.url) and (key := os.environ.get(_OPENAI_VARIABLE)):
        return FoundKey(check_key(key, _OPENAI_VARIABLE), _OPENAI_VARIABLE)
    return None


def check_key(text: str, origin: str) -> Secret:
    """`text` as a key, without white space around it. UsageError, which does not repeat it, if no key can be so."""
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"{origin} holds no API key: a key is printable ASCII text without spaces")
    return Secret(key)


def store_key(name: str, key: Secret) -> None:
    """Keep the key of the server `name` in the keyring. Raises KeyringError."""
    with _keyring() as keyring:
        keyring.set_password(SERVICE, name, key.reveal())
    _note_keyring(_in_keyring() | {name})


def forget_key(name: str) -> bool:
    """Take the key of the server `name` out of the keyring; False if there is none. Raises KeyringError."""
    if name not in _in_keyring():
        return False
    with _keyring() as keyring:
        if keyring.get_password(SERVICE, name) is not None:
            keyring.delete_password(SERVICE, name)
    _note_keyring(_in_keyring() - {name})
    return True


@contextmanager
def _keyring() -> Iterator[ModuleType]:
    """The keyring package; what it raises becomes a KeyringError, without what it was about."""
    try:
        import keyring  # noqa: PLC0415 - slow, and an extra
    except ImportError as error:
        hint = "'pip install \"qchat[keyring]\"', or put the key into the environment: docs/remote.md"
        raise KeyringError("the keyring package is not installed", hint) from error
    try:
        yield keyring
    except keyring.errors.NoKeyringError as error:
        hint = "put the key into the environment, or into the config file: docs/remote.md"
        raise KeyringError("this system has no keyring that keeps keys", hint) from error
    except Exception as error:  # each keyring has errors of its own
        reason = printable(str(error), 120) or type(error).__name__
        raise KeyringError(
            f"the keyring refused: {reason}", "unlock it, or put the key into the environment"
        ) from error


def _list_file() -> Path:
    return paths().data_dir / "keyring-servers"


def _in_keyring() -> frozenset[str]:
    """The servers whose keys are in the keyring."""
    try:
        return frozenset(_list_file().read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise KeyringError(f"cannot read {printable(str(_list_file()))}: {error.strerror}") from error


def _note_keyring(names: frozenset[str]) -> None:
    file = _list_file()
    private_dir(file.parent)
    try:
        file.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    except OSError as error:
        raise KeyringError(f"cannot write {printable(str(file))}: {error.strerror}") from error


def _is_openai(url: str) -> bool:
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return parts.scheme == "https" and parts.hostname == _OPENAI_HOST
