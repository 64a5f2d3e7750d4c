"""A qchat home of its own for a test, so that no test reads or writes the folders of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def qchat_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("QCHAT_", "HF_")) or name in ("VISUAL", "EDITOR")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("QCHAT_HOME", str(home))
    return home
