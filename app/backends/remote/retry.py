"""When a request may be sent again, and how long to wait before it."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

TRIES = 3
BUSY = frozenset({429, 502, 503})  # statuses of a request that nobody has worked on
LOST_PAUSE_S = 0.3  # after a refused connection
LONGEST_PAUSE_S = 30.0  # a server that wants more is reported, not waited for


def asked_pause(retry_after: str) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date (RFC 9110, 10.2.3). None if it says neither."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def pause_before(asked_s: float | None, tried: int) -> float:
    """Seconds to wait after `tried` requests."""
    return asked_s if asked_s is not None else 0.5 * 2.0 ** (tried - 1)
