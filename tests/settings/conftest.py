from __future__ import annotations

from tests.home import qchat_home

__all__ = ["qchat_home"]
