"""What is told about a running download, and its end."""

from __future__ import annotations

import threading

import pytest

from app.hub.transfer import Transfer, TransferMeter
from app.hub.web import Cancelled


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
def meter(clock: Clock, told: list[Transfer]) -> TransferMeter:
    return TransferMeter(told.append, clock)


def test_the_speed_is_that_of_the_last_seconds(meter: TransferMeter, clock: Clock, told: list[Transfer]) -> None:
    for second in range(8):  # a slow start that the window forgets
        meter("downloading", second * 100 if second < 3 else 200 + (second - 2) * 1000, 20_000)
        clock.now += 1
    assert told[0] == Transfer("downloading", 0, 20_000, None)
    assert told[-1] == Transfer("downloading", 5200, 20_000, 1000.0, 14.8)


def test_a_server_that_stalls_loses_its_speed(meter: TransferMeter, clock: Clock, told: list[Transfer]) -> None:
    meter("downloading", 500, 1000)
    for _ in range(3):
        clock.now += 4
        meter("downloading", 500, 1000)
    assert told[-1].speed == 0


def test_reports_are_few_but_the_last_one_comes(meter: TransferMeter, clock: Clock, told: list[Transfer]) -> None:
    for done in range(101):
        meter("downloading", done, 100)
        clock.now += 0.013
    assert 10 <= len(told) <= 14
    assert told[-1].done == 100


def test_another_stage_is_told_at_once_with_a_speed_of_its_own(
    meter: TransferMeter, clock: Clock, told: list[Transfer]
) -> None:
    meter("downloading", 90, 100)
    clock.now += 1
    meter("joining", 1, 100)
    assert told[-1] == Transfer("joining", 1, 100, None)


def test_a_part_is_named(meter: TransferMeter, told: list[Transfer]) -> None:
    meter.notify("part 2 of 3")
    meter("downloading", 1, 100)
    assert told[-1].stage == "downloading part 2 of 3"


def test_a_cancelled_pull_ends_at_its_next_report(meter: TransferMeter) -> None:
    meter("downloading", 1, 100)
    meter.cancel()
    with pytest.raises(Cancelled):
        meter("downloading", 1, 100)


def test_a_paused_pull_waits_until_it_may_go_on(meter: TransferMeter, told: list[Transfer]) -> None:
    meter("downloading", 1, 100)
    meter.pause()
    waiting = threading.Thread(target=meter, args=("downloading", 2, 100), daemon=True)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive() and meter.paused and told[-1] == Transfer("paused", 2, 100)
    meter.resume()
    waiting.join(10)
    assert not waiting.is_alive() and told[-1].stage == "downloading"


def test_a_paused_pull_can_be_cancelled(meter: TransferMeter) -> None:
    meter.pause()
    meter.cancel()
    with pytest.raises(Cancelled):
        meter("downloading", 1, 100)
