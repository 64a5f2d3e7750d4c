from __future__ import annotations

from tests.home import qchat_home
from tests.hub.download.scripted import hub, other_host

__all__ = ["hub", "other_host", "qchat_home"]
