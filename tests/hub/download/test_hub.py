"""What the hub and the network around it ask for: tokens, hashes, mirrors, proxies, certificates, waiting."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.errors import DownloadError, NetworkError, UsageError
from app.hub.download.body import READ
from app.hub.download.options import Patience
from app.hub.library import Library
from app.settings import paths, private_dir
from tests.hub.download.pulling import PATIENT, Pull, SkippingClock, make_body, quick
from tests.hub.download.scripted import Hub, Request, Script, running_hub, serve_file, sha256
from tests.hub.files import left_in

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"
SOURCE = "hf:o/r/x.gguf"
TREE = "/api/models/o/r/tree/main"
TOKEN = "hf_secret"
CERTIFICATE = Path(__file__).parents[2] / "data" / "self-signed-127.0.0.1.pem"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_body(tmp_path_factory.mktemp("body"), kilobytes=100)


# -- refusals: what happened, and the next step (D04) -----------------------------------------------------------------

REFUSALS: Mapping[str, tuple[int, bool, Mapping[str, object], str, str]] = {
    "gated, no token": (401, False, {"X_Error_Code": "GatedRepo"}, "people with an account", "/o/r, then set HF_TOKEN"),
    "gated, with token": (403, True, {"X_Error_Code": "GatedRepo"}, "not granted", "accept the licence at"),
    "stale token": (401, True, {}, "HF_TOKEN is not accepted", "stale"),
    "hidden or missing repository": (401, False, {"X_Error_Code": "RepoNotFound"}, "not a public one", "ORG/REPO"),
    "missing repository": (404, True, {"X_Error_Code": "RepoNotFound"}, "no such repository", "ORG/REPO"),
    "missing file": (404, False, {"X_Error_Code": "EntryNotFound"}, "no such file in o/r", "it has y.gguf, sub/z.gguf"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_to_do_and_never_the_token(
    name: str, hub: Hub, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, with_token, headers, what, hint = REFUSALS[name]
    if with_token:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.scripts[PATH] = lambda request: request.answer(status, b"", **headers)
    hub.scripts[TREE] = listing(["README.md", "y.gguf", "sub/z.gguf"])
    with pytest.raises(DownloadError) as refusal:
        Pull().run(SOURCE, library)
    assert what in refusal.value.message and str(status) in refusal.value.message
    assert hint in str(refusal.value.hint)
    assert TOKEN not in refusal.value.message + str(refusal.value.hint)
    assert refusal.value.exit_code == 1


def listing(names: list[str], **lfs: str) -> Script:
    entries = [{"type": "file", "path": name, "size": 1} for name in names]
    entries += [{"type": "file", "path": name, "size": 1, "lfs": {"oid": oid}} for name, oid in lfs.items()]
    return lambda request: request.answer(200, json.dumps(entries).encode())


@pytest.mark.parametrize(
    ("headers", "waits"),
    [({"Retry_After": 2}, [(2, 2)]), ({}, [(2, 2.5)]), ({"Retry_After": "soon"}, [(2, 2.5)]), ({"Retry_After": 0}, [])],
)
def test_a_busy_server_is_given_the_time_that_it_asks_for(
    hub: Hub, library: Library, body: bytes, headers: Mapping[str, object], waits: list[tuple[float, float]]
) -> None:
    def script(request: Request) -> None:
        if request.number == 0:
            request.answer(429, **headers)
        else:
            serve_file(body)(request)

    hub.scripts[PATH] = script
    clock = SkippingClock()
    pull = Pull()
    pull.run(SOURCE, library, quick(clock=clock))
    for least, most in waits:
        assert least - 0.001 <= clock.skipped <= most
    assert bool(waits) == any(step.stage == "retrying" and "next try in" in step.note for step in pull.transfers)


def test_a_server_that_is_always_busy_gets_five_requests_in_the_first_minute(hub: Hub, library: Library) -> None:
    asked: list[float] = []
    clock = SkippingClock()

    def script(request: Request) -> None:
        asked.append(clock.now())
        request.answer(429)

    hub.scripts[PATH] = script
    with pytest.raises(DownloadError, match="too many requests"):
        Pull().run(SOURCE, library, quick(clock=clock))
    assert sum(when < asked[0] + 60 for when in asked) <= 5 and len(asked) == Patience().tries


# -- the token and redirects ------------------------------------------------------------------------------------------


def test_the_token_is_for_the_hub_alone(
    hub: Hub, other_host: Hub, library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    other_host.scripts["/blob"] = serve_file(body)
    hub.scripts[PATH] = lambda request: request.answer(302, Location=f"{other_host.url}/blob?signed=1")
    Pull().run(SOURCE, library, quick(connections=4))
    assert [request.headers.get("authorization") for request in hub.requests if request.path == PATH] == [
        f"Bearer {TOKEN}"
    ]
    assert other_host.requests and not any("authorization" in request.headers for request in other_host.requests)
    files = [path for path in library.models_dir.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)


def test_a_token_that_left_does_not_come_back(
    hub: Hub, other_host: Hub, library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host could send it to any page of the hub."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.scripts[PATH] = lambda request: request.answer(302, Location=f"{other_host.url}/there")
    other_host.scripts["/there"] = lambda request: request.answer(302, Location=f"{hub.url}/back")
    hub.scripts["/back"] = serve_file(body)
    Pull().run(SOURCE, library)
    assert not any("authorization" in request.headers for request in hub.requests if request.path == "/back")


def test_a_signed_address_that_expires_is_asked_for_anew(
    hub: Hub, other_host: Hub, library: Library, body: bytes
) -> None:
    hub.scripts[PATH] = lambda request: request.answer(
        302, Location=f"{other_host.url}/{request.number}", X_Linked_ETag=f'"{sha256(body)}"'
    )

    def blob(request: Request) -> None:
        if request.number > 1:
            request.answer(403, b"Request has expired")
        else:
            serve_file(body, ETag=f'"edge {request.path}"')(request)

    for number in range(50):
        other_host.scripts[f"/{number}"] = blob
    assert Pull().run(SOURCE, library, quick(connections=2)).path.read_bytes() == body
    assert hub.count(PATH) > 1


def test_nobody_leads_from_https_to_http(
    other_host: Hub, library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_host.scripts["/x.gguf"] = serve_file(body)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with running_hub(certificate()) as hub:
        hub.scripts["/x.gguf"] = lambda request: request.answer(302, Location=f"{other_host.url}/x.gguf")
        with pytest.raises(DownloadError, match="from https to plain http"):
            Pull().run(f"{hub.url}/x.gguf", library)
    assert other_host.requests == []


# -- hashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["header", "entity tag", "list"])
def test_the_hash_of_the_hub_is_found_wherever_it_is(hub: Hub, library: Library, body: bytes, where: str) -> None:
    wrong = sha256(b"something else")
    headers: dict[str, object] = {"header": {"X_Linked_ETag": f'"{wrong}"'}, "entity tag": {"ETag": f'"{wrong}"'}}.get(
        where, {}
    )
    hub.scripts[PATH] = serve_file(body, **headers)
    hub.scripts[TREE] = listing([], **{"x.gguf": wrong} if where == "list" else {})
    with pytest.raises(DownloadError, match="came damaged"):
        Pull().run(SOURCE, library)
    assert left_in(library) == []


@pytest.fixture
def catalogue(qchat_home: object, body: bytes) -> None:
    """A catalogue that knows the file as `mine`."""
    private_dir(paths().config_file.parent)
    paths().catalogue_file.write_text(f'[mine]\nsource = "{SOURCE}"\nsha256 = "{sha256(body)}"\n')


@pytest.mark.usefixtures("catalogue")
def test_a_file_that_is_not_the_one_of_the_catalogue_is_not_fetched(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts[PATH] = serve_file(body, X_Linked_ETag=f'"{sha256(b"other")}"')
    with pytest.raises(DownloadError, match="is not the file that the catalogue knows") as refusal:
        Pull().run("mine", library)
    assert sha256(b"other") in str(refusal.value.hint) and sha256(body) in str(refusal.value.hint)
    assert [request.range for request in hub.requests if request.path == PATH] == [(0, 0)]


@pytest.mark.usefixtures("catalogue")
def test_the_catalogue_knows_the_hash_where_the_hub_tells_none(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts[PATH] = serve_file(body[:-1] + b"x")
    with pytest.raises(DownloadError, match="came damaged"):
        Pull().run("mine", library)
    hub.scripts[PATH] = serve_file(body)
    pull = Pull()
    pull.run("mine", library)
    assert pull.said == [f"x.gguf: verified, sha256 {sha256(body)}"]


def test_an_entity_tag_is_a_hash_at_the_hub_alone(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts["/y.gguf"] = serve_file(body, ETag=f'"{sha256(b"other")}"')
    assert Pull().run(f"{hub.url}/y.gguf", library).path.read_bytes() == body


def test_of_many_names_the_first_models_are_told(hub: Hub, library: Library) -> None:
    hub.scripts[TREE] = listing(["a.txt", *(f"{n}.GGUF" for n in range(9))])
    with pytest.raises(DownloadError) as refusal:
        Pull().run(SOURCE, library)
    assert refusal.value.hint == "it has " + ", ".join(f"{n}.GGUF" for n in range(8)) + ", ..."


def test_a_list_that_is_busy_is_asked_for_again_before_a_file_goes_unverified(
    hub: Hub, library: Library, body: bytes
) -> None:
    good = listing([], **{"x.gguf": sha256(body)})
    hub.scripts[PATH] = serve_file(body)
    hub.scripts[TREE] = lambda request: request.answer(429, Retry_After=1) if request.number < 2 else good(request)
    pull = Pull()
    pull.run(SOURCE, library)
    assert pull.said == [f"x.gguf: verified, sha256 {sha256(body)}"]
    assert any(step.stage == "retrying" and TREE in step.note for step in pull.transfers)


def test_a_list_that_never_comes_does_not_stop_a_download(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts[PATH] = serve_file(body)
    hub.scripts[TREE] = lambda request: request.answer(503)
    pull = Pull()
    assert pull.run(SOURCE, library).path.read_bytes() == body
    assert len(pull.said) == 1 and "tells no sha256" in pull.said[0]


def test_a_verified_file_is_called_so_and_another_is_not(hub: Hub, library: Library, body: bytes) -> None:
    hub.scripts[PATH] = serve_file(body, X_Linked_ETag=f'"{sha256(body)}"')
    pull = Pull()
    pull.run(SOURCE, library)
    assert pull.said == [f"x.gguf: verified, sha256 {sha256(body)}"]
    hub.scripts["/y.gguf"] = serve_file(body)
    pull = Pull()
    pull.run(f"{hub.url}/y.gguf", library)
    assert len(pull.said) == 1 and "tells no sha256" in pull.said[0]


# -- mirrors (D06) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", ["{}/hub/", "  {}/hub ", "{}/hub"])
def test_a_mirror_is_asked_for_everything_and_nobody_else(
    library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    with running_hub() as mirror:
        monkeypatch.setenv("HF_ENDPOINT", spelled.format(mirror.url))
        pages = [["a.gguf"], ["b.gguf"]]

        def tree(request: Request) -> None:
            page = 1 if "cursor=2" in request.path else 0
            link = {} if page else {"Link": '<https://huggingface.co/api/models/o/r/tree/main?cursor=2>; rel="next"'}
            entries = [{"type": "file", "path": name, "size": 1} for name in pages[page]]
            request.answer(200, json.dumps(entries).encode(), **link)

        mirror.scripts["/hub/api/models/o/r/tree/main"] = tree
        with pytest.raises(DownloadError) as refusal:
            Pull().run(SOURCE, library)
        assert refusal.value.hint == "it has a.gguf, b.gguf"
        assert mirror.url.partition("://")[2] in refusal.value.message and "HF_ENDPOINT" in refusal.value.message
        mirror.scripts["/hub" + PATH] = serve_file(body)
        Pull().run(SOURCE, library)
        assert all(request.path.startswith("/hub/") and "//" not in request.path for request in mirror.requests)


# -- the way there ----------------------------------------------------------------------------------------------------


def certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def test_a_certificate_is_checked_and_ssl_cert_file_names_more(
    library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with running_hub(certificate()) as hub:
        hub.scripts["/x.gguf"] = serve_file(body)
        with pytest.raises(NetworkError, match=r"certificate of 127\.0\.0\.1:\d+ is not trusted") as failure:
            Pull().run(f"{hub.url}/x.gguf", library)
        assert failure.value.exit_code == 3 and "SSL_CERT_FILE" in str(failure.value.hint)
        assert hub.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert Pull().run(f"{hub.url}/x.gguf", library).path.read_bytes() == body


def test_certificates_that_cannot_be_read_are_named(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(UsageError) as failure:
        Pull().run("https://127.0.0.1:9/x.gguf", library)
    assert "SSL_CERT_FILE" in str(failure.value.hint)


def test_a_proxy_is_used_but_for_hosts_that_need_none(
    hub: Hub, other_host: Hub, library: Library, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", other_host.url)
    other_host.scripts["http://elsewhere.example/x.gguf"] = serve_file(body)
    hub.scripts["/y.gguf"] = serve_file(body)
    Pull().run("http://elsewhere.example/x.gguf", library)
    asked = len(other_host.requests)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Pull().run(f"{hub.url}/y.gguf", library)
    assert asked and len(other_host.requests) == asked


def test_a_name_that_nobody_knows_is_a_network_error(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NetworkError, match=r"nobody\.invalid cannot be reached"):
        Pull().run("http://nobody.invalid/x.gguf", library)


def test_the_speed_limit_holds_for_all_connections_together(hub: Hub, library: Library, tmp_path: Path) -> None:
    body = make_body(tmp_path, kilobytes=1000)
    hub.scripts[PATH] = serve_file(body)
    clock = SkippingClock()
    options = quick(PATIENT, connections=1, clock=clock)
    limited = type(options)(1, 50_000, options.piece, options.patience, options.clock)
    Pull().run(SOURCE, library, limited)
    least_s = (len(body) - READ) / 50_000  # the last piece is not waited for
    assert least_s * 0.9 <= clock.skipped <= len(body) / 50_000 + 1


def test_patience_of_a_person_is_longer_than_that_of_a_test() -> None:
    assert Patience().stall_s >= 20 and Patience().connect_s >= 5
