"""Why a request brought nothing, and whether another might: every failure holds the error that a person would see."""

from __future__ import annotations

import email.utils

from app.errors import DownloadError


class Failure(Exception):  # noqa: N818 - an attempt that failed; the error for a person is inside
    """An attempt that failed. `lasting`: trying again would bring the same. `busy`: the server has too much to do.

    `wait_s`: the seconds that it asked to wait.
    """

    def __init__(
        self, error: DownloadError, *, lasting: bool = False, busy: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.lasting = lasting
        self.busy = busy
        self.wait_s = wait_s


class RangeRefusedError(Exception):
    """The server does not answer for just the bytes that were asked for: the file must come whole, in one piece."""


class ChangedError(Exception):
    """What the server has now is another file than the one that was begun."""


def retry_after(text: str | None, wall: float) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3: seconds or a date); None where it asks nothing.

    `wall` is the time now, in seconds since 1970.
    """
    if not text:
        return None
    text = text.strip()
    if text.isdecimal():
        return float(text)  # without end, where it is that long
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - wall)
    except (ValueError, OverflowError):
        return None
