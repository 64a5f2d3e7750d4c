"""Whatever a server does: the file that gets its name is the right one, or there is none and a person is told why."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.cli import run
from app.hub.download.options import Patience
from app.hub.library import Library
from app.settings import paths
from tests.hub.download.pulling import PATIENT, PIECE, SOON_TIRED, make_body, quick, with_tries
from tests.hub.download.scripted import (
    Hub,
    Request,
    Script,
    after_probe,
    cut,
    serve_file,
    serve_whole,
    sha256,
    stretch,
)

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"
Make = Callable[[bytes], Script]


@dataclass(frozen=True)
class Case:
    """A server, and what a person gets: exit code, message (patterns that stderr must match), requests at most."""

    script: Make
    code: int = 0
    says: tuple[str, ...] = ()
    patience: Patience = PATIENT
    connections: int = 1
    requests: int = 40
    kept: bool = False  # whether something to go on with is left


def the_range(change: Callable[[Request, bytes], None], times: int | None = None) -> Make:
    return lambda body: after_probe(lambda request: change(request, body), body, times)


def refuses(status: int, times: int | None = None, **headers: object) -> Make:
    """A server that answers `status`, the first `times` or always."""

    def make(body: bytes) -> Script:
        good = serve_file(body)

        def script(request: Request) -> None:
            if times is None or request.number < times:
                request.answer(status, b"<html>secret page \x1b[2J</html>", **headers)
            else:
                good(request)

        return script

    return make


def early(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    first = max(0, first - 4096)
    request.answer(206, body[first:stop], Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", ETag=tag(body))


def late(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    first = min(first + 100, stop - 1)
    request.answer(206, body[first:stop], Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", ETag=tag(body))


def all_as_range(request: Request, body: bytes) -> None:
    request.answer(206, body, Content_Range=f"bytes 0-{len(body) - 1}/{len(body)}", ETag=tag(body))


def unnamed_range(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    request.answer(206, body[first:stop], ETag=tag(body))


def wrong_name(request: Request, body: bytes) -> None:
    """The header says what was asked for, the bytes are others: only a hash can tell."""
    first, stop = stretch(request, body)
    span = f"bytes {first}-{stop - 1}/{len(body)}"
    linked = {"X_Linked_ETag": f'"{sha256(body)}"'}
    request.answer(206, body[: stop - first], Content_Range=span, ETag=tag(body), **linked)


def slice_as_whole(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    request.answer(200, body[first:stop], Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", ETag=tag(body))


def short_length(request: Request, body: bytes) -> None:
    """Announces the stretch and ends it early, cleanly."""
    first, stop = stretch(request, body)
    half = body[first : (first + stop) // 2]
    request.answer(206, half, Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", ETag=tag(body))


def small_stretches(request: Request, body: bytes) -> None:
    """Gives less than was asked for and says so."""
    first, stop = stretch(request, body)
    stop = min(stop, first + 150_000)
    request.answer(206, body[first:stop], Content_Range=f"bytes {first}-{stop - 1}/{len(body)}", ETag=tag(body))


def ten_too_few(request: Request, body: bytes) -> None:
    """The header says what was asked for, and the length something else."""
    first, stop = stretch(request, body)
    span = f"bytes {first}-{stop - 1}/{len(body)}"
    request.answer(206, body[first : stop - 10], Content_Range=span, ETag=tag(body))


def chunks_that_end(request: Request, body: bytes) -> None:
    """Half of the stretch, in chunks, of which nobody knows how many come."""
    first, stop = stretch(request, body)
    span = f"bytes {first}-{stop - 1}/{len(body)}"
    request.head(206, Transfer_Encoding="chunked", Content_Range=span, ETag=tag(body))
    half = body[first : (first + stop) // 2]
    request.send(f"{len(half):x}\r\n".encode() + half + b"\r\n0\r\n\r\n")


def longer_than_it_comes(request: Request, body: bytes) -> None:
    """Promises all that follows and sends what was asked for."""
    first, stop = stretch(request, body)
    span = f"bytes {first}-{len(body) - 1}/{len(body)}"
    request.head(206, Content_Length=len(body) - first, Content_Range=span, ETag=tag(body))
    request.send(body[first:stop])
    request.say_nothing()


def one_byte(request: Request, body: bytes) -> None:
    first, _ = stretch(request, body)
    span = f"bytes {first}-{first}/{len(body)}"
    request.answer(206, body[first : first + 1], Content_Range=span, ETag=tag(body))


def longer(request: Request, body: bytes) -> None:
    """Gives more than was asked for and says so."""
    first, _ = stretch(request, body)
    request.answer(206, body[first:], Content_Range=f"bytes {first}-{len(body) - 1}/{len(body)}", ETag=tag(body))


def tag(body: bytes) -> str:
    return f'"{sha256(body)[:16]}"'


def only_plain(body: bytes) -> Script:
    return lambda request: request.answer(416) if request.range else request.answer(200, body, ETag='"v1"')


def changes_always(body: bytes) -> Script:
    def script(request: Request) -> None:
        serve_file(body, ETag=f'"{request.number}"')(request)

    return script


def drips(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    span = f"bytes {first}-{stop - 1}/{len(body)}"
    request.head(206, Content_Length=stop - first, Content_Range=span, ETag=tag(body))
    for byte in body[first:stop]:
        request.send(bytes([byte]))
        if request.over.wait(0.02):
            return


def stalls(request: Request, body: bytes) -> None:
    first, stop = stretch(request, body)
    span = f"bytes {first}-{stop - 1}/{len(body)}"
    request.head(206, Content_Length=stop - first, Content_Range=span, ETag=tag(body))
    request.send(body[first : first + 50_000])
    request.say_nothing()


def silent(_body: bytes) -> Script:
    return lambda request: request.say_nothing()


def packed(body: bytes) -> Script:
    return lambda request: request.answer(200, gzip.compress(body), Content_Encoding="gzip", ETag='"v1"')


def says_more(body: bytes) -> Script:
    """A Content-Length that the body never reaches."""

    def script(request: Request) -> None:
        request.head(200, Content_Length=len(body) + 100, ETag='"v1"')
        request.send(body)
        request.hang_up()

    return script


def says_less(body: bytes) -> Script:
    return lambda request: request.answer(200, body, Content_Length=len(body) - 1000, ETag='"v1"')


def chunked(body: bytes, *, whole: bool = True) -> Script:
    def script(request: Request) -> None:
        request.head(200, Transfer_Encoding="chunked")
        for first in range(0, len(body), 100_000):
            piece = body[first : first + 100_000]
            request.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            if not whole and request.number < 2:
                request.hang_up()
                return
        request.send(b"0\r\n\r\n")

    return script


def slice_in_chunks(body: bytes) -> Script:
    """A range that nobody asked for, of which only a header tells."""

    def script(request: Request) -> None:
        stop = len(body) - 5000
        request.head(200, Transfer_Encoding="chunked", Content_Range=f"bytes 0-{stop - 1}/{len(body)}")
        request.send(f"{stop:x}\r\n".encode() + body[:stop] + b"\r\n0\r\n\r\n")

    return script


def until_it_closes(body: bytes) -> Script:
    """HTTP/1.0 as it was: neither length nor chunks."""

    def script(request: Request) -> None:
        request.send(b"HTTP/1.0 200 OK\r\n\r\n" + body)
        request.hang_up()

    return script


def garbage(_body: bytes) -> Script:
    def script(request: Request) -> None:
        request.send(b"SSH-2.0-OpenSSH_9.9 \x1b[2J\r\n\r\n")
        request.hang_up()

    return script


def endless_headers(_body: bytes) -> Script:
    def script(request: Request) -> None:
        request.send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000)
        request.hang_up()

    return script


def body_is(text: bytes, **headers: object) -> Make:
    return lambda _body: serve_file(text, **headers)


def flipped(body: bytes) -> Script:
    """One bit is wrong, the length and the header of the file are right, the hub tells the true hash."""
    damaged = bytearray(body)
    damaged[len(body) // 2] ^= 1
    return serve_file(bytes(damaged), X_Linked_ETag=f'"{sha256(body)}"')


def redirects(location: str, **headers: object) -> Make:
    return lambda _body: lambda request: request.answer(302, Location=location, **headers)


def names_itself(body: bytes) -> Script:
    return serve_file(body, Content_Disposition='attachment; filename="../../evil.gguf"')


def cut_in_headers(request: Request, _body: bytes) -> None:
    request.send(b"HTTP/1.1 206 Partial Content\r\nContent-Le")
    request.hang_up()


def http_date(seconds: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))


WAIT_OVER = {"Retry_After": 2}
CASES = {
    # what goes well in the end
    "a good server": Case(serve_file, requests=2),
    "several connections": Case(serve_file, connections=4, requests=8),
    "ignores ranges": Case(serve_whole, requests=2),
    "ignores ranges after all": Case(the_range(lambda r, b: r.answer(200, b, ETag=tag(b))), connections=4),
    "cut before the headers end": Case(the_range(cut_in_headers, 1)),
    "cut before the body": Case(the_range(lambda r, b: cut(r, b, 0), 1)),
    "cut after a byte": Case(the_range(lambda r, b: cut(r, b, 1), 1)),
    "cut in the middle": Case(the_range(lambda r, b: cut(r, b, 200_000), 1)),
    "cut before the last byte": Case(the_range(lambda r, b: cut(r, b, len(b) - 1), 1)),
    "every connection cut once": Case(the_range(lambda r, b: cut(r, b, 100), 4), connections=4),
    "cut without ranges": Case(lambda b: lambda r: cut(r, b, 90_000) if r.number in (1, 2) else serve_whole(b)(r)),
    "no entity tag, but a date": Case(lambda b: serve_file(b, ETag=None, Last_Modified=http_date(-9999))),
    "a weak entity tag": Case(lambda b: serve_file(b, ETag='W/"v1"'), requests=2),
    "nothing to recognise it by": Case(lambda b: serve_file(b, ETag=None), connections=4, requests=2),
    "ranges begin early": Case(the_range(lambda r, b: early(r, b) if r.range else serve_whole(b)(r)), connections=2),
    "ranges begin late": Case(the_range(lambda r, b: late(r, b) if r.range else serve_whole(b)(r)), connections=2),
    "every range is the whole": Case(
        the_range(lambda r, b: all_as_range(r, b) if r.range else serve_whole(b)(r)), connections=2
    ),
    "a range without its place": Case(the_range(lambda r, b: unnamed_range(r, b) if r.range else serve_whole(b)(r))),
    "a slice sent as the whole": Case(the_range(lambda r, b: slice_as_whole(r, b) if r.range else serve_whole(b)(r))),
    "a range that ends too early": Case(the_range(short_length, 1)),
    "ranges that are smaller": Case(the_range(small_stretches)),
    "ranges that are longer": Case(the_range(longer), connections=4),
    "ranges of which only what was asked for comes": Case(
        the_range(longer_than_it_comes), patience=with_tries(PATIENT, 1), connections=2
    ),
    "ranges of another length": Case(the_range(lambda r, b: ten_too_few(r, b) if r.range else serve_whole(b)(r))),
    "416 for every range": Case(only_plain),
    "416 after all": Case(the_range(lambda r, b: r.answer(416) if r.range else serve_whole(b)(r))),
    "500 three times": Case(refuses(500, 3), requests=5),
    "429 with Retry-After": Case(refuses(429, 1, **WAIT_OVER), requests=3),
    "429 with a date": Case(refuses(429, 1, Retry_After=http_date(5)), requests=3),
    "429 for a second connection": Case(
        the_range(lambda r, b: r.answer(429, **WAIT_OVER) if r.range != (0, PIECE - 1) else serve_file(b)(r), 3),
        connections=4,
    ),
    "stalls once": Case(the_range(stalls, 1), patience=SOON_TIRED),
    "chunked, of unknown length": Case(chunked, says=("only its size and its structure",)),
    "chunked and cut": Case(lambda b: chunked(b, whole=False)),
    "until it closes": Case(until_it_closes),
    "a hostile name in a header": Case(names_itself),
    # what ends with a message
    "206 where all was asked for": Case(
        lambda b: lambda r: serve_whole(b)(r) if r.range else all_as_range(r, b), 1, ("sends a part of the file where",)
    ),
    "206 without its place where all was asked for": Case(
        lambda b: lambda r: serve_whole(b)(r) if r.range else r.answer(206, b, ETag=tag(b)), 1, ("sends a part of the",)
    ),
    "a slice where all was asked for": Case(slice_in_chunks, 1, ("sends a part of the file where all of it was",)),
    "401": Case(refuses(401), 1, ("answered 401", "no such repository, or not a public one", "HF_TOKEN"), requests=1),
    "403": Case(refuses(403), 1, ("answered 403", "accept the licence at http", "/o/r"), requests=1),
    "404": Case(refuses(404), 1, ("answered 404", "no such file in o/r"), requests=1),
    "404 repository": Case(refuses(404, X_Error_Code="RepoNotFound"), 1, ("no such repository",), requests=1),
    "410": Case(refuses(410), 1, ("answered 410",), requests=1),
    "418": Case(refuses(418), 1, ("answered 418", "which is no file"), requests=1),
    "429 for ever": Case(refuses(429), 1, ("too many requests", "wait a while"), requests=6),
    "429 for an hour": Case(refuses(429, Retry_After=3600), 1, ("the server asks to wait until",), requests=1),
    "500 for ever": Case(refuses(500), 3, ("answered 500", "it cannot serve now"), requests=6),
    "503 in the middle": Case(
        the_range(lambda r, b: cut(r, b, 90_000) if r.number < 2 else r.answer(503)), 3, ("answered 503",), kept=True
    ),
    "cut for ever": Case(
        the_range(lambda r, b: cut(r, b, 10_000)), 3, ("connection", "try again"), with_tries(PATIENT, 3), kept=True
    ),
    "chunks that end too early": Case(
        the_range(chunks_that_end), 3, (r"ended the connection [\d,]+ bytes too early",), connections=2, kept=True
    ),
    "a byte at a time": Case(the_range(one_byte), 3, ("sends only 1 bytes at a time",), requests=8, kept=True),
    "a circle of redirects": Case(redirects(PATH), 1, ("redirects in a circle",), requests=11),
    "a redirect to nowhere": Case(lambda _b: lambda r: r.answer(302), 1, ("redirects to nowhere",)),
    "a redirect to a file": Case(redirects("file:///etc/passwd"), 1, (r"redirects to file:///etc/passwd, .* refused",)),
    "a redirect to another protocol": Case(redirects("ftp://127.0.0.1/x"), 1, (r"redirects to ftp:.* refused",)),
    "a redirect to no address": Case(redirects("http://[::1/x"), 3, ("Invalid URL in location header",)),
    "a redirect with a password": Case(redirects("http://me:secret@127.0.0.1/x"), 1, ("which is refused",)),
    "drips": Case(the_range(drips), 4, ("bytes in 0.3 seconds", "too slow"), with_tries(SOON_TIRED, 2), kept=True),
    "stalls for ever": Case(the_range(stalls), 4, ("bytes in 0.3 seconds",), with_tries(SOON_TIRED, 2), kept=True),
    "never answers": Case(silent, 4, ("did not answer within",), SOON_TIRED),
    "packed by gzip": Case(packed, 1, ("encoded as gzip", "not asked for"), requests=1),
    "promises more than it sends": Case(says_more, 3, ("broke", "try again"), with_tries(PATIENT, 3)),
    "sends more than it promises": Case(says_less, 1, ("not usable", "incomplete")),
    "no HTTP at all": Case(garbage, 3, ("broke",)),
    "endless headers": Case(endless_headers, 3, ("broke",)),
    "a web page by its type": Case(body_is(b"hello", Content_Type="text/html; charset=utf-8"), 1, ("a web page",)),
    "a web page by its text": Case(body_is(b"<!DOCTYPE html><title>sign in"), 1, ("a web page",)),
    "a Git LFS pointer": Case(body_is(b"version https://git-lfs.github.com/spec/v1\noid"), 1, ("LFS pointer",)),
    "the format before GGUF": Case(body_is(b"lmgg\x01\0\0\0"), 1, ("GGML",)),
    "an empty file": Case(body_is(b""), 1, ("an empty file",)),
    "something else": Case(body_is(b"\x1b[2Jx"), 1, (r"\\x1b",)),
    "cut short and proud of it": Case(lambda b: serve_file(b[:-5000]), 1, ("not usable", "incomplete")),
    "one wrong bit": Case(flipped, 1, ("came damaged", "sha256"), connections=4),
    "the wrong stretch under the right name": Case(
        lambda b: lambda r: wrong_name(r, b), 1, ("came damaged",), connections=4
    ),
    "changes with every request": Case(changes_always, 1, ("keeps changing",), connections=2),
}


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_body(tmp_path_factory.mktemp("body"))


@pytest.mark.parametrize("name", CASES)
def test_a_misbehaving_server_never_leaves_a_wrong_file(
    name: str, body: bytes, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    options = quick(case.patience, connections=case.connections)
    monkeypatch.setattr("app.hub.download.gather.configured", lambda: options)
    monkeypatch.setattr("app.hub.download.handle.configured", lambda: options)
    hub.scripts[PATH] = case.script(body)
    code = run(["models", "pull", "hf:o/r/x.gguf"])
    said = capsys.readouterr()
    assert code == case.code, said.err
    library = Library(paths().models_dir)
    final = library.models_dir / "x.gguf"
    if code == 0:
        assert final.read_bytes() == body
    else:
        assert [path for path in library.models_dir.iterdir() if path != library.incoming_dir] == []
        last = [line for line in said.err.splitlines() if line.startswith("qchat: ")]
        assert len(last) == 1 and "Traceback" not in said.err
    for pattern in case.says:
        assert re.search(pattern, said.err), said.err
    assert "\x1b" not in said.err + said.out
    left = {path.name for path in library.incoming_dir.iterdir()}
    assert left == ({"x.gguf.part", "x.gguf.part.json"} if case.kept else set())
    assert hub.count(PATH) <= case.requests
    assert not any(request.method == "HEAD" for request in hub.requests)
