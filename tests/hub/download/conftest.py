from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.hub.download.options import Patience
from app.hub.download.transport import Transport
from tests.home import qchat_home
from tests.hub.download.scripted import hub, other_host

__all__ = ["hub", "other_host", "qchat_home"]


@pytest.fixture
def transport() -> Iterator[Transport]:
    """HTTP as patient as a person's."""
    transport = Transport(Patience())
    yield transport
    transport.close()
