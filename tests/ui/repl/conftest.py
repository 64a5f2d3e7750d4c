from __future__ import annotations

import pytest

from tests.home import home_with_kernels, qchat_home
from tests.ui.repl.talk import Talker

__all__ = ["home_with_kernels", "qchat_home"]


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], qchat_home: object) -> Talker:
    """Type something into a line interface with a home of its own."""
    return Talker(monkeypatch, capsys)
