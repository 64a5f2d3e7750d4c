"""Where a server's key comes from, and that it goes nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

from app.backends.keys import find_key, forget_key, store_key
from app.errors import KeyringError, UsageError
from app.settings import Secret, ServerTable, paths
from tests.backends.keyrings import LockedKeyring, MemoryKeyring
from tests.home import qchat_home

__all__ = ["qchat_home"]

KEY = "sk-4f9a-secret"
WORK = ServerTable("work", url="http://work:8000", key_env="TEAM_KEY")


@pytest.fixture(autouse=True)
def memory(qchat_home: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    for name in ("TEAM_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    mine = MemoryKeyring()
    monkeypatch.setattr("keyring.core._keyring_backend", mine)
    return mine


def found(server: ServerTable) -> tuple[str, str] | None:
    key = find_key(server)
    return (key.secret.reveal(), key.origin) if key else None


def test_the_places_are_asked_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(WORK) is None
    store_key("work", Secret("sk-ring"))
    assert found(WORK) == ("sk-ring", "the keyring")
    in_file = ServerTable("work", key=Secret("sk-file"), key_env="TEAM_KEY", file="config.toml")
    assert found(in_file) == ("sk-file", "config.toml")
    monkeypatch.setenv("TEAM_KEY", "sk-team")
    assert found(in_file) == ("sk-team", "TEAM_KEY")
    monkeypatch.setenv("QCHAT_KEY_WORK", " sk-own\n")
    assert found(in_file) == ("sk-own", "QCHAT_KEY_WORK")
    monkeypatch.setenv("QCHAT_KEY_WORK", "")
    assert found(in_file) == ("sk-team", "TEAM_KEY")
    assert found(ServerTable("home", key_env="OTHER")) is None


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("https://api.openai.com/v1", True),
        ("api.openai.com", True),
        ("http://api.openai.com/v1", False),  # anybody on the way could read it
        ("https://api.openai.com.evil.example/v1", False),
        ("https://evil.example/api.openai.com", False),
        ("https://evil.example?https://api.openai.com", False),
        ("http://localhost:8000", False),
        ("", False),
    ],
)
def test_the_key_of_openai_goes_to_openai_alone(url: str, given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert found(ServerTable("any", url=url)) == ((KEY, "OPENAI_API_KEY") if given else None)


@pytest.mark.parametrize("text", ["  ", "two words", "line\nline", "\x1b[2J", "schlüssel"])
def test_what_can_be_no_key_is_refused_without_repeating_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", text)
    with pytest.raises(UsageError, match="TEAM_KEY holds no API key") as caught:
        find_key(WORK)
    assert text.strip() == "" or text not in f"{caught.value.message} {caught.value.hint}"


def test_a_keyring_is_asked_only_for_what_was_stored(memory: MemoryKeyring) -> None:
    """Asking takes time, and may ask for a password."""
    assert found(WORK) is None and memory.asked == 0
    store_key("work", Secret(KEY))
    assert found(WORK) == (KEY, "the keyring") and memory.asked == 1
    assert found(ServerTable("home")) is None and memory.asked == 1
    assert KEY not in "".join(file.read_text() for file in paths().data_dir.iterdir())


def test_a_key_that_is_forgotten_is_gone(memory: MemoryKeyring) -> None:
    store_key("work", Secret(KEY))
    store_key("home", Secret("sk-home"))
    assert forget_key("work") and memory.kept == {"qchat home": "sk-home"}
    assert found(WORK) is None
    assert not forget_key("work")
    assert found(ServerTable("home")) == ("sk-home", "the keyring")


def test_a_keyring_that_does_not_work_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    store_key("work", Secret(KEY))
    keyring.set_keyring(LockedKeyring())
    with pytest.raises(KeyringError, match=r"the keyring refused: the collection is \\x1b locked"):
        find_key(WORK)
    keyring.set_keyring(NoKeyring())
    with pytest.raises(KeyringError, match="no keyring that keeps keys"):
        store_key("work", Secret(KEY))
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeyringError, match="not installed") as caught:
        store_key("work", Secret(KEY))
    assert "qchat[keyring]" in str(caught.value.hint)
    assert found(ServerTable("home")) is None  # and no server without a key is bothered
