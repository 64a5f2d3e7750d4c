"""The speed limit that all connections of a download share."""

from __future__ import annotations

import threading

from app.hub.download.options import Clock


class SpeedLimit:
    """`bytes_per_s` for everyone who asks; 0 lets everything through."""

    def __init__(self, bytes_per_s: float, clock: Clock) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = clock.now()

    def wait_s(self, n_bytes: int) -> float:
        """Seconds to wait after `n_bytes` came, so that the limit is kept. May be called from any thread."""
        if not self._bytes_per_s:
            return 0.0
        with self._lock:
            now = self._clock.now()
            self._free_at = max(self._free_at, now) + n_bytes / self._bytes_per_s
            return self._free_at - now
