from __future__ import annotations

from tests.home import home_with_kernels, qchat_home

__all__ = ["home_with_kernels", "qchat_home"]
