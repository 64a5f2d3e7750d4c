"""Addresses as people write them."""

from __future__ import annotations

import pytest

from app.backends.remote.url import parse_url
from app.errors import SettingsError


@pytest.mark.parametrize(
    ("written", "shown", "request_url"),
    [
        ("http://h:1", "http://h:1", "http://h:1/x"),
        ("http://h:1/", "http://h:1", "http://h:1/x"),
        ("  https://Example.ORG/v1/  ", "https://example.org/v1", "https://example.org/v1/x"),
        ("http://h:1//api///v1//", "http://h:1/api/v1", "http://h:1/api/v1/x"),
        ("https://h/v1?key=secret", "https://h/v1", "https://h/v1/x?key=secret"),
        ("http://[::1]:1", "http://[::1]:1", "http://[::1]:1/x"),
        ("http://h./v1", "http://h/v1", "http://h/v1/x"),
    ],
)
def test_an_address_has_no_doubled_slash_and_is_shown_without_its_query(
    written: str, shown: str, request_url: str
) -> None:
    url = parse_url(written)
    assert url.shown() == shown
    assert url.request("/x") == request_url


@pytest.mark.parametrize(
    ("written", "scheme"),
    [
        ("localhost:11434", "http"),
        ("127.0.0.1:8000/v1", "http"),
        ("[::1]:8000", "http"),
        ("192.168.1.7:8000", "http"),
        ("gpu-box:8000", "http"),
        *((f"gpu.{domain}:8000", "http") for domain in ("local", "lan", "internal", "localhost", "home.arpa")),
        ("api.example.com/v1", "https"),
        ("api.example.com:8000", "https"),
        ("8.8.8.8:8000", "https"),
    ],
)
def test_without_a_scheme_only_near_servers_are_asked_without_tls(written: str, scheme: str) -> None:
    assert parse_url(written).scheme == scheme


@pytest.mark.parametrize(
    "written",
    [
        "",
        "http://",
        "http:///v1",
        "h:port",
        "h:99999",
        "http://a b",
        "http://[::1",
        "ftp://h",
        "http://h\\x",
        "no!",
        "http://h/a b",
        "http://h/a\nb",
        "http://h/v1?key=a\tb",
    ],
)
def test_what_is_no_address_is_refused_before_anything_is_asked(written: str) -> None:
    with pytest.raises(SettingsError):
        parse_url(written)


@pytest.mark.parametrize("user", ["me:hunter2", "hunter2", ":hunter2", "me:@hunter2", "me:x?hunter2", "me:hunter2/"])
@pytest.mark.parametrize("scheme", ["https://", ""])
def test_a_password_in_an_address_is_refused_and_not_repeated(user: str, scheme: str) -> None:
    with pytest.raises(SettingsError, match=r"holds a user name|is not the address") as caught:
        parse_url(f"{scheme}{user}@h/v1?key=hunter3")
    assert "hunter" not in f"{caught.value.message} {caught.value.hint}"


def test_no_address_writes_to_the_terminal() -> None:
    assert parse_url("http://h/\x9b2J").shown("/models") == "http://h/\\x9b2J/models"
    with pytest.raises(SettingsError) as caught:
        parse_url("http://h\x9b2J")
    assert "\x9b" not in caught.value.message


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.8.8.8", "[::1]"])
def test_loopback_is_known_in_every_form(host: str) -> None:
    assert parse_url(f"http://{host}:1").loopback
    assert not parse_url("http://192.168.1.7").loopback
    assert not parse_url("http://localhost.example.com").loopback
    assert not parse_url("http://notlocalhost").loopback
