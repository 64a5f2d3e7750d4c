"""What a request says, where it is led, and what is made of an answer."""

from __future__ import annotations

import threading

import httpx
import pytest

from app import __version__
from app.errors import DownloadError, DownloadTimeoutError, NetworkError
from app.hub.download.failures import Failure
from app.hub.download.options import Patience
from app.hub.download.transport import Address, Transport, _origin
from tests.hub.download.pulling import LONG_S
from tests.hub.download.scripted import Hub, Request, running_hub
from tests.hub.download.test_hub import certificate

TOKEN = "hf_secret"


def body_of(transport: Transport, address: Address) -> bytes:
    with transport.get(address) as answer:
        return b"".join(answer.pieces())


def test_a_request_says_who_asks_and_that_the_file_is_wanted_as_it_is(hub: Hub, transport: Transport) -> None:
    body_of(transport, Address(f"{hub.url}/x"))
    headers = hub.requests[0].headers
    assert headers["accept-encoding"] == "identity" and headers["user-agent"] == f"qchat/{__version__}"


def test_only_of_the_hub_it_is_said_that_another_takes_its_place(hub: Hub) -> None:
    at = hub.url.partition("://")[2]
    assert Address(f"{hub.url}/o/r/resolve/main/x", repo="o/r").host == f"{at} (HF_ENDPOINT)"
    assert Address(f"{hub.url}/x").host == at


@pytest.mark.parametrize("status", [302, 307, 400, 401, 403, 404, 410])
def test_where_it_was_led_is_asked_until_that_is_over_and_then_no_more(
    hub: Hub, other_host: Hub, transport: Transport, status: int
) -> None:
    def first_elsewhere(request: Request) -> None:
        if request.number == 0:
            request.answer(302, Location=f"{other_host.url}/there")
        else:
            request.answer(200, b"here")

    def for_a_while(request: Request) -> None:
        if request.number < 2:
            request.answer(200, b"there")
        else:
            request.answer(status, Location="/further")

    hub.scripts["/x"], other_host.scripts["/there"] = first_elsewhere, for_a_while
    address = Address(f"{hub.url}/x")
    assert [body_of(transport, address) for _ in range(4)] == [b"there", b"there", b"here", b"here"]
    assert (hub.count("/x"), other_host.count("/there"), other_host.count("/further")) == (3, 3, 0)


@pytest.mark.parametrize("status", [416, 429, 503])
def test_another_refusal_there_is_the_answer(hub: Hub, other_host: Hub, transport: Transport, status: int) -> None:
    hub.scripts["/x"] = lambda request: request.answer(302, Location=f"{other_host.url}/there")
    other_host.scripts["/there"] = lambda request: request.answer(status if request.number else 200)
    address = Address(f"{hub.url}/x")
    body_of(transport, address)
    with transport.get(address) as answer:
        assert answer.status == status
    assert hub.count("/x") == 1


def test_another_port_is_another_server(hub: Hub, other_host: Hub, transport: Transport) -> None:
    """The two have one name, as they are on one machine."""
    hub.scripts["/x"] = lambda request: request.answer(302, Location="/y")
    hub.scripts["/y"] = lambda request: request.answer(302, Location=f"{other_host.url}/z")
    other_host.scripts["/z"] = lambda request: request.answer(200)
    body_of(transport, Address(f"{hub.url}/x", TOKEN))
    assert [request.headers.get("authorization") for request in hub.requests] == [f"Bearer {TOKEN}"] * 2
    assert "authorization" not in other_host.requests[0].headers


def test_a_place_that_refused_is_not_remembered(hub: Hub, other_host: Hub, transport: Transport) -> None:
    hub.scripts["/x"] = lambda request: request.answer(302, Location=f"{other_host.url}/{request.number}")
    other_host.scripts["/0"] = lambda request: request.answer(503)
    other_host.scripts["/1"] = lambda request: request.answer(200, b"there")
    address = Address(f"{hub.url}/x")
    assert [body_of(transport, address) for _ in range(2)] == [b"", b"there"]


def test_a_place_on_the_same_server_is_never_asked_without_the_token(hub: Hub, transport: Transport) -> None:
    hub.scripts["/x"] = lambda request: request.answer(302, Location="/y")
    hub.scripts["/y"] = lambda request: request.answer(200)
    for _ in range(2):
        body_of(transport, Address(f"{hub.url}/x", TOKEN))
    assert {request.headers.get("authorization") for request in hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("other", ["https://h/x", "http://h:81/x", "http://g/x"])
def test_a_server_is_its_protocol_its_name_and_its_port(other: str) -> None:
    assert _origin(httpx.URL("http://h/x")) == _origin(httpx.URL("http://h:80/y")) != _origin(httpx.URL(other))


def failure_of(transport: Transport, url: str, repo: str = "") -> Failure:
    with pytest.raises(Failure) as failure, transport.get(Address(url, repo=repo)):
        pass
    return failure.value


def test_who_answers_is_named_and_not_who_was_asked(hub: Hub, other_host: Hub, transport: Transport) -> None:
    hub.scripts["/x"] = lambda request: request.answer(302, Location=f"{other_host.url}/there")
    with transport.get(Address(f"{hub.url}/x")) as answer:
        assert (answer.status, answer.host) == (404, other_host.url.partition("://")[2])


def test_a_body_that_nobody_wants_any_more_is_not_waited_for(hub: Hub, transport: Transport) -> None:
    over = threading.Event()

    def script(request: Request) -> None:
        request.head(200, Content_Length=1_000_000)
        if not request.connection.recv(1):
            over.set()

    hub.scripts["/x"] = script
    with transport.get(Address(f"{hub.url}/x")):
        pass
    assert over.wait(LONG_S / 10)


def test_a_server_that_says_nothing_for_twice_the_patience_is_a_timeout(hub: Hub) -> None:
    hub.scripts["/x"] = lambda request: request.say_nothing()
    impatient = Transport(Patience(stall_s=0.1))
    failure = failure_of(impatient, f"{hub.url}/x")
    impatient.close()
    assert type(failure.error) is DownloadTimeoutError and not failure.lasting
    patient = Transport(Patience(stall_s=20, connect_s=7))
    assert patient._client.timeout == httpx.Timeout(40, connect=7)
    patient.close()


def test_a_proxy_that_refuses_is_not_taken_for_the_server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", hub.url)
    hub.scripts["elsewhere.example:443"] = lambda request: request.answer(407)
    transport = Transport(Patience())
    failure = failure_of(transport, "https://elsewhere.example/x")
    transport.close()
    assert "the proxy on the way to elsewhere.example refused: 407" in failure.error.message
    assert failure.lasting and isinstance(failure.error, NetworkError) and "HTTPS_PROXY" in str(failure.error.hint)


def test_a_certificate_that_is_not_trusted_is_not_tried_again(transport: Transport) -> None:
    with running_hub(certificate()) as hub:
        failure = failure_of(transport, f"{hub.url}/x")
    assert failure.lasting and "is not trusted" in failure.error.message


@pytest.mark.parametrize("mirror", ["mirror.example", "localhost:8080"])
def test_a_mirror_without_a_protocol_is_named(
    transport: Transport, monkeypatch: pytest.MonkeyPatch, mirror: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", mirror)
    failure = failure_of(transport, f"{mirror}/o/r/resolve/main/x", "o/r")
    assert failure.lasting and type(failure.error) is DownloadError
    assert failure.error.message.startswith(f"{mirror} (HF_ENDPOINT): ")
    assert failure.error.hint == "write http:// or https://"


def test_a_name_that_no_server_can_have_is_not_asked_for(transport: Transport) -> None:
    failure = failure_of(transport, "http://\u2603\u2603../x")
    assert failure.lasting and "cannot be asked" in failure.error.message
    assert failure.error.hint == "check the address"
