"""A qchat home of its own for a test, so that no test reads or writes the folders of the person who runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DATA, SHARED_HOME


@pytest.fixture
def qchat_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("QCHAT_", "HF_")) or name in ("VISUAL", "EDITOR")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("QCHAT_HOME", str(home))
    return home


@pytest.fixture
def home_with_kernels(qchat_home: Path) -> Path:
    """The same for tests that run a network: its kernels are those that all tests share, compiled once."""
    kernels = SHARED_HOME / "cache" / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    (qchat_home / "cache").mkdir(parents=True, mode=0o700)
    (qchat_home / "cache" / "kernels").symlink_to(kernels)
    return qchat_home


@pytest.fixture
def home_with_compiled_kernels(home_with_kernels: Path) -> Path:
    """The same for tests that cannot wait for a minute: the kernels are there."""
    ask = [sys.executable, "-m", "app", "ask", "-m", str(DATA / "tiny-qwen3-q8_0.gguf"), "hi"]
    subprocess.run(ask, check=True, capture_output=True, stdin=subprocess.DEVNULL, cwd=DATA.parents[1])
    return home_with_kernels
