"""What a server says when it refuses or fails, made into an error for a person.

Servers put their reasons under many names, or send the page of a proxy. Whatever it is, the person sees the server's
own words, escaped and shortened, and never those of a decoder that missed a key.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from app.backends.remote.server import ServerSettings
from app.errors import BackendError, printable

_MOST_SHOWN = 300  # characters of the server's own words
_LEAST_WHOLE, _LEAST_PART = 8, 24  # characters of a message that an error must not repeat: all of it, or a part
_PAGE = re.compile(r"\s*<(?:!doctype|html|\?xml|head|body)", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1)[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_REASONS = ("error", "message", "msg", "detail", "errors", "error_description", "title")  # the likeliest first


@dataclass(frozen=True)
class Failure:
    """A response that is no success."""

    status: int
    body: str
    location: str = ""  # where a redirect leads
    retry_after_s: float | None = None

    @property
    def reason(self) -> str:
        """The server's own words; "" if there are none."""
        return words_of(self.body)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The object in which the server explains itself, such as {"code": ..., "message": ...}."""
        document = _json(self.body)
        inner = document.get("error") if isinstance(document, dict) else None
        found = inner if isinstance(inner, dict) else document
        return found if isinstance(found, dict) else {}


class RefusedError(BackendError):
    """A server answered a request with a status that is no success."""

    def __init__(self, message: str, hint: str | None, failure: Failure) -> None:
        super().__init__(message, hint)
        self.failure = failure


def words_of(body: str) -> str:
    """The reason in the body of a failure, whatever its form: JSON of any server, a web page, or text."""
    if reason := reason_of(_json(body)):
        return reason
    if _PAGE.match(body):
        title = _TITLE.search(body[:10_000])
        return f"a web page, {' '.join(html.unescape(title[2]).split())!r}" if title else "a web page"
    return body


def reason_of(document: Any) -> str:
    """The words in {"error": {"message": ..}}, {"error": ".."}, {"message": ..}, {"detail": [{"loc": [..], "msg": ..}]}
    and their like; "" where there are none."""
    if isinstance(document, str):
        return document
    if isinstance(document, list):
        return "; ".join(filter(None, map(reason_of, document[:3])))
    if not isinstance(document, dict):
        return ""
    found = next(filter(None, (reason_of(document.get(name)) for name in _REASONS)), "")
    where = document.get("loc")
    return f"{'.'.join(map(str, where))}: {found}" if found and isinstance(where, list) else found


def said(server: ServerSettings, text: str) -> str:
    """Words of the server for a message: one line, escaped, shortened, and without the keys that it may repeat."""
    for secret in filter(None, [server.key, *server.headers.values()]):
        text = text.replace(secret.reveal(), "…") if secret.reveal() else text
    return printable(" ".join(text[:10_000].split()), _MOST_SHOWN)


def hide_echo(error: BackendError, asked: Iterable[str]) -> None:
    """Take out of the message what it repeats of the conversation: messages are logged, and chats are private."""
    words = error.message
    for text in (" ".join(each.split()) for each in asked):
        if len(text) >= _LEAST_WHOLE:
            words = words.replace(text, "…")
        words = _without_common(words, text)
    error.message = words
    error.args = (words,)


def refused(server: ServerSettings, failure: Failure, address: str) -> RefusedError:
    """The error for a status that is no success; `address` is the one that was asked, without its query."""
    status = failure.status
    answered = f"{server.name} answered {status} {_phrase(status)}".strip()
    if 300 <= status < 400:
        target = printable(failure.location.partition("?")[0], 200) or "nowhere"
        hint = "redirects are not followed, so that no key goes astray: set the server's url to the right address"
        return RefusedError(f"{answered} for {address} and points to {target}", hint, failure)
    words = said(server, failure.reason)
    if status == 404 and not failure.fields:
        return RefusedError(f"{answered} for {address}" + (f": {words}" if words else ""), _other(address), failure)
    return RefusedError(answered + (f": {words}" if words else ""), _hint(server, failure), failure)


def _hint(server: ServerSettings, failure: Failure) -> str | None:
    status = failure.status
    if status in (401, 403):
        return (
            f"'qchat backends login {server.name}' sets another key"
            if server.key
            else f"it wants a key: 'qchat backends login {server.name}'"
        )
    if status == 404:
        return "is the name of the model right?"
    if status == 429:
        wait = failure.retry_after_s
        return "wait a while and try again" if wait is None else f"it asks to be left alone for {wait:,.0f} s"
    return "try again later" if status >= 500 else None


def _other(address: str) -> str:
    """What to try where nothing was found: the path with /v1, or without."""
    base = re.sub(r"/(?:chat/completions|models|api/chat|api/tags)$", "", address)
    other = base.removesuffix("/v1") if base.endswith("/v1") else f"{base}/v1"
    return f'is the path right? Perhaps url = "{other}"'


def _without_common(words: str, text: str) -> str:
    """`words` with … for every stretch of `_LEAST_PART` characters and more that also stands in `text`."""
    kept, at = [], 0
    while at < len(words):
        end = at + _LEAST_PART
        if end > len(words) or words[at:end] not in text:
            kept.append(words[at])
            at += 1
            continue
        while end < len(words) and words[at : end + 1] in text:
            end += 1
        kept.append("…")
        at = end
    return "".join(kept)


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
