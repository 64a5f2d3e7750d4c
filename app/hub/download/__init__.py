"""Fetching models: `pull` for whoever waits for one, `Download` for whoever shows it and lets a person steer it.

gather     a source becomes a checked model in the library
handle     the same as a thing that can be watched, paused and cancelled
"""

from __future__ import annotations

from app.hub.download.gather import Notify, pull
from app.hub.download.handle import Download

__all__ = ["Download", "Notify", "pull"]
