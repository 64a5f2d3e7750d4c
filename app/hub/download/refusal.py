"""What an HTTP status means for somebody who wants a model: what happened, what to do, whether to ask again."""

from __future__ import annotations

import time
from urllib.parse import unquote, urlsplit

from app.errors import DownloadError, NetworkError, printable
from app.hub.download.failures import Failure, retry_after
from app.hub.download.options import Clock, Patience
from app.hub.download.transport import Address, Answer
from app.hub.source import endpoint

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


def refusal(answer: Answer, address: Address, patience: Patience, clock: Clock) -> Failure:
    """The failure that an answer without the file stands for."""
    status = answer.status
    # X-Error-Code is the hub's: RepoNotFound, GatedRepo, EntryNotFound, RevisionNotFound
    code = answer.headers.get("x-error-code", "") if address.repo else ""
    where = f"{answer.host} answered {status} for {printable(unquote(urlsplit(address.url).path), 160)}"
    if status in _AGAIN:
        return _later(answer, where, patience, clock)
    if status == 401:
        return _lasting(where, *_not_let_in(address, code))
    if status == 403:
        return _lasting(where, *_not_allowed(address))
    if status in (404, 410):
        if address.repo and code != "RepoNotFound":
            return _lasting(where, f"no such file in {printable(address.repo)}", "check the name of the file")
        if address.repo:
            return _lasting(where, "no such repository", "check the names ORG/REPO")
        return _lasting(where, "not found", "check the address")
    if status == 407:
        return _lasting(where, "the proxy wants a login", "write it as HTTPS_PROXY=http://user:password@host:port")
    return _lasting(where, "which is no file", "check the address")


def _lasting(where: str, what: str, hint: str) -> Failure:
    return Failure(DownloadError(f"{where}: {what}", hint), lasting=True)


def _not_let_in(address: Address, code: str) -> tuple[str, str]:
    if address.token:
        return "HF_TOKEN is not accepted", "it may be stale: set a new one, or unset it, as public models need none"
    if code == "GatedRepo":
        return "the model is for people with an account", f"accept its licence at {_page(address)}, then set HF_TOKEN"
    if address.repo:
        return (
            "no such repository, or not a public one",
            "check the names ORG/REPO; for what is not public set HF_TOKEN",
        )
    return "it wants a login", "get the file another way, then 'qchat models pull PATH' uses it where it is"


def _not_allowed(address: Address) -> tuple[str, str]:
    if address.repo:
        then = "with the account of HF_TOKEN" if address.token else "then set HF_TOKEN"
        return "access is not granted", f"accept the licence at {_page(address)}, {then}"
    return "access is refused", "check the address"


def _page(address: Address) -> str:
    return printable(f"{endpoint()}/{address.repo}", 160)


def _later(answer: Answer, where: str, patience: Patience, clock: Clock) -> Failure:
    what = "too many requests" if answer.status == 429 else "it cannot serve now"
    wait_s = retry_after(answer.headers.get("retry-after"), clock.wall())
    if wait_s is None or wait_s <= patience.longest_wait_s:
        kind = DownloadError if answer.status == 429 else NetworkError
        return Failure(kind(f"{where}: {what}", "wait a while and try again"), busy=True, wait_s=wait_s)
    until = _moment(clock.wall() + wait_s) if wait_s < 1e9 else "a day far away"
    return Failure(DownloadError(f"{where}: {what}", f"the server asks to wait until {until}"), lasting=True)


def _moment(wall: float) -> str:
    return time.strftime("%H:%M on %Y-%m-%d", time.localtime(wall))
