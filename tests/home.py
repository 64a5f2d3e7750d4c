"""A qchat home of its own for a test, so that no test reads or writes the folders of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import SHARED_HOME


@pytest.fixture
def qchat_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("QCHAT_", "HF_")) or name in ("VISUAL", "EDITOR")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    kernels = SHARED_HOME / "cache" / "kernels"  # compiled once for all tests
    kernels.mkdir(parents=True, exist_ok=True)
    (home / "cache").mkdir(parents=True, mode=0o700)
    (home / "cache" / "kernels").symlink_to(kernels)
    monkeypatch.setenv("QCHAT_HOME", str(home))
    return home
