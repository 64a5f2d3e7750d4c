from __future__ import annotations

from tests.home import qchat_home
from tests.hub.files import server

__all__ = ["qchat_home", "server"]
