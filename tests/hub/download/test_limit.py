"""The speed limit: what all connections together may take."""

from __future__ import annotations

import pytest

from app.hub.download.limit import SpeedLimit
from app.hub.download.options import Clock, configured


class StillClock:
    """Stands where a test puts it."""

    at = 100.0

    def clock(self) -> Clock:
        return Clock(now=lambda: self.at)


def test_connections_wait_for_each_other_and_idle_time_is_not_saved_up() -> None:
    clock = StillClock()
    limit = SpeedLimit(1000, clock.clock())
    assert [limit.wait_s(500) for _ in range(3)] == pytest.approx([0.5, 1.0, 1.5])  # three connections at one moment
    clock.at += 1
    assert limit.wait_s(500) == pytest.approx(1.0)
    clock.at += 60
    assert limit.wait_s(500) == pytest.approx(0.5)


def test_no_limit_is_no_wait() -> None:
    assert SpeedLimit(0, StillClock().clock()).wait_s(1 << 40) == 0


def test_what_a_person_sets_is_in_megabytes_and_connections(
    qchat_home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_DOWNLOAD_LIMIT_MB", "2.5")
    monkeypatch.setenv("QCHAT_DOWNLOAD_CONNECTIONS", "3")
    assert (configured().bytes_per_s, configured().connections) == (2_500_000, 3)
