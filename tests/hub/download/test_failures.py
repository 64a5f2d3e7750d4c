"""What a server asks to wait, and which of its answers are worth another try."""

from __future__ import annotations

import email.utils
import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from app.hub.download.failures import retry_after
from app.hub.download.options import Clock, Patience
from app.hub.download.refusal import refusal
from app.hub.download.transport import Address

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("17", 17),
        (" 17 ", 17),
        ("9" * 400, math.inf),
        (email.utils.formatdate(NOW + 90, usegmt=True), 90),
        (email.utils.formatdate(NOW - 90, usegmt=True), 0),  # its clock is behind ours
    ],
)
def test_a_server_asks_to_wait_in_seconds_or_until_a_date(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, NOW) == seconds


def refused(status: int, **headers: str) -> Any:
    answer: Any = SimpleNamespace(status=status, host="h", headers={k.replace("_", "-"): v for k, v in headers.items()})
    return refusal(answer, Address("http://h/x.gguf"), Patience(), Clock(wall=lambda: NOW))


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    failure = refused(status)
    assert (failure.lasting, failure.busy, failure.wait_s) == (False, True, None)
    assert refused(status, retry_after="60").wait_s == 60


@pytest.mark.parametrize("status", [400, 401, 403, 404, 407, 410, 418, 451, 501])
def test_what_stays_as_it_is_is_not(status: int) -> None:
    assert refused(status, retry_after="1").lasting


def said(status: int, address: Address, **headers: str) -> str:
    answer: Any = SimpleNamespace(status=status, host="h", headers={k.replace("_", "-"): v for k, v in headers.items()})
    error = refusal(answer, address, Patience(), Clock(wall=lambda: NOW)).error
    return f"{error.message} | {error.hint}"


def test_only_the_hub_is_believed_what_the_hub_says() -> None:
    hub = Address("http://h/o/r/resolve/main/x.gguf", repo="o/r")
    assert "accept its licence" in said(401, hub, x_error_code="GatedRepo")
    assert "get the file another way" in said(401, Address("http://h/x.gguf"), x_error_code="GatedRepo")


@pytest.mark.parametrize(("token", "then"), [(None, "then set HF_TOKEN"), ("t", "with the account of HF_TOKEN")])
def test_access_is_granted_to_an_account(token: str | None, then: str) -> None:
    assert said(403, Address("http://h/o/r/resolve/main/x.gguf", token, "o/r")).endswith(then)


def test_a_path_is_shown_as_a_person_writes_it_and_drives_no_terminal() -> None:
    assert "404 for /a b\\x1b.gguf: not found" in said(404, Address("http://h/a%20b%1b.gguf?secret=1"))


@pytest.mark.parametrize(
    ("asked", "until"), [("61", r"until \d\d:\d\d on 2023-11-1[45]"), ("9" * 99, "a day far away")]
)
def test_a_server_that_asks_for_more_than_anybody_waits_is_told_of(asked: str, until: str) -> None:
    failure = refused(429, retry_after=asked)
    assert failure.lasting
    assert re.search(until, str(failure.error.hint))
