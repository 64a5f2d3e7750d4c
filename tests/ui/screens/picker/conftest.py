from __future__ import annotations

from tests.home import qchat_home
from tests.hub.files import server
from tests.ui.screens.picker.app import library, two_models

__all__ = ["library", "qchat_home", "server", "two_models"]
