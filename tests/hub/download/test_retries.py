"""How often and after how long an attempt is repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.errors import DownloadError
from app.hub.download.failures import Failure
from app.hub.download.options import Patience
from app.hub.download.retries import Retries
from app.hub.download.transport import Transport

PATIENCE = Patience(tries=9, first_wait_s=2, longest_wait_s=60)


@pytest.fixture
def transport() -> Iterator[Transport]:
    transport = Transport(PATIENCE)
    transport.reached = True
    yield transport
    transport.close()


def failed(**how: bool) -> Failure:
    return Failure(DownloadError("no"), **how)


def waits_s(retries: Retries) -> list[float]:
    """What is waited until it is given up."""
    found = []
    with pytest.raises(DownloadError, match="no"):
        while True:
            found.append(retries.wait_s(failed()))
    return found


def test_waits_are_doubled_up_to_the_longest_and_never_the_same(transport: Transport) -> None:
    found = waits_s(Retries(PATIENCE, transport))
    assert len(found) == PATIENCE.tries - 1
    for wait_s, least_s in zip(found, [2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert least_s <= wait_s <= 1.25 * least_s
    assert len(set(found)) == len(found)  # so that not all clients of a server come back at once


def test_what_brought_something_may_fail_as_often_again(transport: Transport) -> None:
    retries = Retries(PATIENCE, transport)
    for _ in range(PATIENCE.tries - 1):
        retries.wait_s(failed())
    retries.progressed()
    assert len(waits_s(retries)) == PATIENCE.tries - 1


def test_what_would_bring_the_same_or_was_never_reached_is_not_tried_again(transport: Transport) -> None:
    with pytest.raises(DownloadError):
        Retries(PATIENCE, transport).wait_s(failed(lasting=True))
    transport.reached = False
    assert waits_s(Retries(PATIENCE, transport)) == []


def test_a_server_is_given_the_time_that_it_asks_for(transport: Transport) -> None:
    assert Retries(PATIENCE, transport).wait_s(Failure(DownloadError("no"), busy=True, wait_s=17)) == 17
