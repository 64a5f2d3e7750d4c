"""The address of a server as people write it, made whole: never a guess that sends a key over an open network."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from app.errors import SettingsError, printable
from app.settings.servers import shown_address

_HINT = "an address looks like http://localhost:8000 or https://api.example.com/v1"


@dataclass(frozen=True)
class ServerUrl:
    """Where a server is. `query`, which may carry a key, goes with every request and is never shown."""

    scheme: str  # "http" or "https"
    host: str  # in lower case, IPv6 without brackets
    port: int | None
    path: str  # "" or "/v1": no slash at the end, none doubled
    query: str

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port is None else f":{self.port}")

    @property
    def loopback(self) -> bool:
        """Whether it is this machine, which no proxy can reach."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        address = _address(self.host)
        return address is not None and address.is_loopback

    def shown(self, path: str = "") -> str:
        """The address of `path` ("/models") below this one, for a message: without the query."""
        return printable(self.origin + self.path + path, 200)

    def request(self, path: str) -> str:
        """The whole address of `path` below this one."""
        return self.origin + self.path + path + (f"?{self.query}" if self.query else "")


def parse_url(text: str) -> ServerUrl:
    """Raises SettingsError. Without a scheme it is http for this machine and private networks, else https."""
    text = text.strip()
    shown = printable(shown_address(text), 120)
    has_scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text)
    try:
        parts = urlsplit(text if has_scheme else f"//{text}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        reason = "" if "@" in text else f": {error}"  # which would repeat a password that is no port
        raise SettingsError(f"{shown} is not the address of a server{reason}", _HINT) from error
    if not host or not _is_host(host) or re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise SettingsError(f"{shown!r} is not the address of a server", _HINT)
    scheme = parts.scheme if has_scheme else ("http" if _is_near(host, port) else "https")
    if scheme not in ("http", "https"):
        raise SettingsError(f"{shown}: a server is reached over http or https, not {printable(scheme)}", _HINT)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"the address {shown} holds a user name",
            'write the header instead: headers = { Authorization = "Basic …" }',
        )
    return ServerUrl(scheme, host, port, _tidy(parts), parts.query)


def _tidy(parts: SplitResult) -> str:
    return re.sub("/{2,}", "/", parts.path).rstrip("/")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_host(host: str) -> bool:
    return _address(host) is not None or re.fullmatch(r"[\w.-]+", host) is not None


def _is_near(host: str, port: int | None) -> bool:
    """This machine, or one of a private network: an address of one, or a name that only such a network knows."""
    address = _address(host)
    if address is not None:
        return address.is_private or address.is_loopback
    return "." not in host or host.endswith((".local", ".lan", ".internal", ".localhost", ".home.arpa"))
