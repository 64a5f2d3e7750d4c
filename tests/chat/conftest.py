from __future__ import annotations

from tests.chat.stores import path, store, told, unprivileged_folder
from tests.home import qchat_home

__all__ = ["path", "qchat_home", "store", "told", "unprivileged_folder"]
