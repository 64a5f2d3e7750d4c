"""Every test of the app has a home of its own, and the colours of a full terminal whatever runs the tests."""

import pytest

from tests.home import qchat_home

__all__ = ["qchat_home"]


@pytest.fixture(autouse=True)
def own_home(qchat_home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
