"""A qchat home of its own for a test, so that no test reads or writes the folders of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.engine.cpu.isa import choose
from tests.kept import compile_kernels, use_kept_kernels


@pytest.fixture
def qchat_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("QCHAT_", "HF_")) or name in ("VISUAL", "EDITOR")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("QCHAT_OTHER_STORES", "false")
    home = tmp_path / "home"
    monkeypatch.setenv("QCHAT_HOME", str(home))
    return home


@pytest.fixture
def home_with_kernels(qchat_home: Path) -> Path:
    """The same for tests that run a network: its kernels are those that all tests share, compiled once."""
    use_kept_kernels(qchat_home)
    return qchat_home


@pytest.fixture
def home_with_compiled_kernels(home_with_kernels: Path) -> Path:
    """The same for tests that cannot wait for a compiler: the kernels are there."""
    compile_kernels([choose()], print)
    return home_with_kernels
