"""Every test of the app has a home of its own."""

import pytest

from tests.home import qchat_home

__all__ = ["qchat_home"]


@pytest.fixture(autouse=True)
def own_home(qchat_home: object) -> None:
    pass
