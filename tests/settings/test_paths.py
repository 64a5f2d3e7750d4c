"""Where qchat keeps things, and that nobody else can read them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.errors import SettingsError
from app.settings import paths, private_dir

pytestmark = pytest.mark.usefixtures("qchat_home")


def test_qchat_home_moves_everything(qchat_home: Path) -> None:
    found = paths()
    for folder in (found.config_file, found.data_dir, found.models_dir, found.cache_dir, found.log_dir):
        assert qchat_home in folder.parents


def test_without_qchat_home_the_platform_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCHAT_HOME")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    found = paths()
    assert tmp_path in found.config_file.parents and tmp_path in found.models_dir.parents
    assert found.config_file.name == "config.toml"


def test_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    made = private_dir(tmp_path / "a" / "b")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (made, made.parent)] == [0o700, 0o700]
    private_dir(made)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot make the folder"):
        private_dir(tmp_path / "file" / "below")
