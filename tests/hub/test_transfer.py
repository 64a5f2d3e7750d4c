"""What is told about a running download, and its end."""

from __future__ import annotations

import pytest

from app.hub.transfer import Cancelled, Steering, Transfer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[Transfer]:
    return []


@pytest.fixture
def meter(clock: Clock, told: list[Transfer]) -> Steering:
    return Steering(told.append, clock)


def test_the_speed_is_that_of_the_last_seconds(meter: Steering, clock: Clock, told: list[Transfer]) -> None:
    for second in range(8):  # a slow start that the window forgets
        meter("downloading", second * 100 if second < 3 else 200 + (second - 2) * 1000, 20_000)
        clock.now += 1
    assert told[0] == Transfer("downloading", 0, 20_000, None)
    assert told[-1] == Transfer("downloading", 5200, 20_000, 1000.0, 14.8)


def test_a_server_that_stalls_loses_its_speed(meter: Steering, clock: Clock, told: list[Transfer]) -> None:
    meter("downloading", 500, 1000)
    for _ in range(3):
        clock.now += 4
        meter("downloading", 500, 1000)
    assert told[-1].speed == 0


def test_reports_are_few_but_the_last_one_comes(meter: Steering, clock: Clock, told: list[Transfer]) -> None:
    for done in range(101):
        meter("downloading", done, 100)
        clock.now += 0.013
    assert 10 <= len(told) <= 14
    assert told[-1].done == 100


def test_another_stage_is_told_at_once_with_a_speed_of_its_own(
    meter: Steering, clock: Clock, told: list[Transfer]
) -> None:
    meter("downloading", 90, 100)
    clock.now += 1
    meter("joining", 1, 100)
    assert told[-1] == Transfer("joining", 1, 100, None)


def test_a_note_is_told_at_once(meter: Steering, told: list[Transfer]) -> None:
    meter("downloading", 1, 100, "part 1 of 3")
    meter("downloading", 1, 100, "part 2 of 3")
    assert [transfer.note for transfer in told] == ["part 1 of 3", "part 2 of 3"]


def test_a_download_that_begins_anew_has_no_speed_below_nothing(
    meter: Steering, clock: Clock, told: list[Transfer]
) -> None:
    meter("downloading", 90, 100)
    clock.now += 1
    meter("downloading", 10, 100)
    assert told[-1] == Transfer("downloading", 10, 100, None)


def test_a_cancelled_pull_ends_at_its_next_report(meter: Steering) -> None:
    meter("downloading", 1, 100)
    meter.cancel()
    with pytest.raises(Cancelled):
        meter("downloading", 1, 100)


def test_a_cancelled_pull_is_not_paused(meter: Steering) -> None:
    meter.pause()
    assert meter.paused
    meter.cancel()
    assert not meter.paused
