"""What a repository of the hub offers, from a server that speaks the hub's tree API."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.cli import run
from app.errors import DownloadError, UsageError
from app.hub.catalogue.repository import Offer, file_named, kind_in, look, offered, repository_named
from app.hub.download import pull
from app.hub.download.options import Patience
from app.hub.library import Library
from app.hub.records import recall
from app.hub.transfer import Cancelled, Steering, Transfer
from app.settings import paths
from tests.hub.download.pulling import SkippingClock, quick
from tests.hub.download.scripted import Hub, Request, cut, hub, other_host, serve_file, sha256
from tests.hub.library.stores import MODEL

__all__ = ["hub", "other_host"]

pytestmark = pytest.mark.usefixtures("qchat_home")

TREE = "/api/models/o/r/tree/main"
GB = 10**9


def file_entry(path: str, size: int, digest: str = "") -> dict[str, object]:
    """As the hub lists a file: `oid` is of git, and a large file has `lfs` with its SHA-256."""
    lfs = {"oid": digest or sha256(path.encode()), "size": size, "pointerSize": 134}
    return {"type": "file", "oid": "0" * 40, "size": size, "path": path, "lfs": lfs}


def serve_tree(hub: Hub, *pages: Iterable[dict[str, object]], link: str = "") -> None:
    """The pages of a listing; each but the last names the next one, at `link` or at this server."""

    def script(request: Request) -> None:
        number = int(request.path.partition("cursor=")[2] or 0)
        following = f'<{link or hub.url}{TREE}?recursive=true&cursor={number + 1}>; rel="next"'
        headers = {"Link": following} if number + 1 < len(pages) else {}
        request.answer(200, json.dumps(list(pages[number])).encode(), Content_Type="application/json", **headers)

    hub.scripts[TREE] = script


FILES = [
    file_entry("README.md", 100),
    {"type": "directory", "oid": "0" * 40, "size": 0, "path": "sub"},
    *(file_entry(f"m-{kind}.gguf", int(size * GB)) for kind, size in [("Q2_K", 1.6), ("Q4_K_M", 2.5), ("Q8_0", 4.3)]),
    *(file_entry(f"f16/m-F16-{n:05d}-of-00002.gguf", 4 * GB) for n in (1, 2)),
    file_entry("mmproj-m-f16.gguf", GB),
]


def best(free: float, **files: float) -> str:
    """The quantisation that is marked; `files` are sizes in GB by quantisation, `free` is in GB."""
    repository = offered("o/r", [(f"m-{kind}.gguf", int(size * GB)) for kind, size in files.items()], int(free * GB))
    return repository.best.kind if repository.best else ""


def test_a_repository_is_its_quantisations_with_sizes(hub: Hub) -> None:
    serve_tree(hub, FILES)
    repository = look("o/r", 8 * GB)
    rows = [(offer.kind, offer.size, offer.parts, offer.problem) for offer in repository.offers]
    assert rows == [
        ("F16", GB, 1, "is for pictures and sound, and no model"),
        ("Q2_K", 1_600_000_000, 1, "qchat does not run Q2_K"),
        ("Q4_K_M", 2_500_000_000, 1, ""),
        ("Q8_0", 4_300_000_000, 1, ""),
        ("F16", 8 * GB, 2, ""),
    ]
    assert repository.best == repository.offers[2]
    assert repository.offers[4].fit and repository.offers[4].fit.verdict == "too large"
    assert repository.source(repository.offers[4]) == "hf:o/r/f16/m-F16-00001-of-00002.gguf"


@pytest.mark.parametrize(
    ("free", "files", "kind"),
    [
        (8, {"Q8_0": 0.6, "Q4_K_M": 0.4, "F16": 1.2}, "Q8_0"),
        (8, {"Q8_0": 4.3, "Q4_K_M": 2.5, "Q4_0": 2.4}, "Q4_K_M"),
        (2.9, {"Q8_0": 4.3, "Q4_K_M": 2.5, "Q4_0": 2.3}, "Q4_0"),
        (8, {"Q6_K": 3.3, "Q5_K_S": 2.9, "Q8_0": 4.3}, "Q8_0"),
        (8, {"Q2_K": 1.0, "IQ4_XS": 2.2, "UD-Q4_K_XL": 2.5}, "UD-Q4_K_XL"),
        (1, {"Q4_K_M": 2.5}, ""),
        (8, {"Q2_K": 1.0}, ""),
    ],
)
def test_the_best_is_the_usual_one_or_the_largest_that_fits(free: float, files: dict[str, float], kind: str) -> None:
    assert best(free, **files) == kind


def test_where_memory_is_not_known_the_usual_one_is_marked() -> None:
    repository = offered("o/r", [("m-Q4_K_M.gguf", GB), ("m-F16.gguf", 40 * GB)], None)
    assert repository.best and repository.best.kind == "Q4_K_M"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("UD-Q2_K_XL/m.gguf", "UD-Q2_K_XL"),
        ("BF16/m-fp16.gguf", "F16"),
        ("m.IQ3_XXS.gguf", "IQ3_XXS"),
        ("Q8_0.GGUF", "Q8_0"),
        ("qwen3-0.6b.gguf", ""),
    ],
)
def test_a_name_tells_the_quantisation(path: str, kind: str) -> None:
    assert kind_in(path) == kind


def test_every_page_is_asked_for_at_the_endpoint_with_its_path(
    hub: Hub, other_host: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D06: a mirror repeats the links of the original, to which nothing may go."""
    serve_tree(hub, FILES[:3], FILES[3:], link=other_host.url)
    hub.scripts[f"/hub{TREE}"] = hub.scripts.pop(TREE)
    monkeypatch.setenv("HF_ENDPOINT", f"  {hub.url}/hub/ ")
    assert len(look("o/r", None).offers) == 5
    assert [request.path for request in hub.requests] == [
        f"/hub{TREE}?recursive=true",
        f"/hub{TREE}?recursive=true&cursor=1",
    ]
    assert other_host.requests == []


BAD = ["../../evil.gguf", "/abs/x.gguf", "C:\\x.gguf", "a\\..\\..\\x.gguf", "\\\\host\\s\\x.gguf", "sub/../ok.gguf",
       "a\n\x1b[2J.gguf", f"{'n' * 300}.gguf", ".gguf", "CON.gguf"]  # fmt: skip


def test_names_that_lead_out_of_the_models_folder_are_refused_by_name(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D08"""
    serve_tree(hub, [*(file_entry(name, 5) for name in BAD), file_entry("good-Q8_0.gguf", 5)])
    repository = look("o/r", None)
    assert [offer.file for offer in repository.offers] == ["good-Q8_0.gguf"]
    assert len(repository.refused) == len(BAD) and all("is refused" in reason for reason in repository.refused)
    before = sorted(tmp_path.rglob("*"))
    assert run(["models", "show", "hf:o/r"]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err and shown.err.count("is refused") == len(BAD)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_part_is_said() -> None:
    (offer,) = offered("o/r", [("m-Q8_0-00001-of-00003.gguf", 5), ("m-Q8_0-00003-of-00003.gguf", 5)], None).offers
    assert (offer.problem, offer.parts) == ("1 of 3 parts are missing", 3)
    (offer,) = offered("o/r", [("m-Q8_0-00002-of-00003.gguf", 5)], None).offers
    assert offer.problem == "its first part is missing"


@pytest.mark.parametrize(
    ("status", "headers", "message", "hint"),
    [
        (404, {}, "has no list of files of o/r", "name a file"),
        (404, {"X_Error_Code": "RepoNotFound"}, "no such repository", "ORG/REPO"),
        (401, {}, "no such repository, or not a public one", "HF_TOKEN"),
        (403, {}, "access is not granted", "accept the licence"),
        (429, {"Retry_After": "3600"}, "too many requests", "until"),
    ],
)
def test_a_server_that_gives_no_list_is_told_of(
    hub: Hub, status: int, headers: dict[str, str], message: str, hint: str
) -> None:
    hub.scripts[TREE] = lambda request: request.answer(status, b"", **headers)
    with pytest.raises(DownloadError) as refusal:
        look("o/r", None)
    assert message in refusal.value.message and hint in str(refusal.value.hint)
    assert hub.url.partition("//")[2] in refusal.value.message
    assert len(hub.requests) == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SkippingClock:
    """The clock of whoever asks; sleeping is over at once."""
    clock = SkippingClock()
    monkeypatch.setattr("app.hub.download.options.configured", lambda: quick(clock=clock))
    return clock


def busy(hub: Hub, times: int, status: int, **headers: object) -> None:
    """The first `times` requests of each page are refused."""
    tree, refused = hub.scripts[TREE], Counter[str]()

    def script(request: Request) -> None:
        refused[request.path] += 1
        if refused[request.path] <= times:
            request.answer(status, **headers)
        else:
            tree(request)

    hub.scripts[TREE] = script


@pytest.mark.parametrize(
    ("status", "headers", "waits_s"), [(429, {"Retry_After": 7}, (14, 14)), (503, {}, (2 + 4, 1.25 * (2 + 4)))]
)
def test_a_busy_server_is_asked_again_for_each_page(
    hub: Hub, clock: SkippingClock, status: int, headers: dict[str, object], waits_s: tuple[float, float]
) -> None:
    serve_tree(hub, FILES[:3], FILES[3:])
    busy(hub, 1, status, **headers)
    told: list[Transfer] = []
    assert len(look("o/r", None, Steering(told.append)).offers) == 5
    assert len(hub.requests) == 4 and waits_s[0] - 0.01 <= clock.skipped <= waits_s[1]
    notes = {step.note for step in told if step.stage == "retrying"}
    assert any(f"answered {status}" in note and "next try in" in note for note in notes)


def test_a_server_that_is_always_busy_is_given_up(hub: Hub, clock: SkippingClock) -> None:
    serve_tree(hub, FILES)
    busy(hub, 99, 503)
    with pytest.raises(DownloadError, match="cannot serve now") as refusal:
        look("o/r", None)
    assert "wait a while" in str(refusal.value.hint) and len(hub.requests) == Patience().tries


def test_whoever_waits_for_a_list_can_leave(hub: Hub, clock: SkippingClock) -> None:
    serve_tree(hub, FILES)
    busy(hub, 99, 503)

    def leave(step: Transfer) -> None:
        if step.stage == "retrying":
            raise Cancelled

    for asks in (lambda steering: look("o/r", None, steering), lambda steering: file_named("hf:o/r:Q8_0", steering)):
        hub.requests.clear()
        with pytest.raises(Cancelled):
            asks(Steering(leave))
        assert len(hub.requests) == 1


def test_a_list_that_breaks_off_is_asked_for_again(hub: Hub, clock: SkippingClock) -> None:
    serve_tree(hub, FILES)
    tree = hub.scripts[TREE]
    hub.scripts[TREE] = lambda request: cut(request, b"[" * 500, 100) if request.number == 0 else tree(request)
    assert len(look("o/r", None).offers) == 5 and len(hub.requests) == 2


@pytest.mark.parametrize("body", [b"<html>", b'{"error": "x"}', b"[3]", b'[{"type": "file", "path": "x"}]'])
def test_a_list_that_cannot_be_read_is_told_of(hub: Hub, body: bytes) -> None:
    hub.scripts[TREE] = lambda request: request.answer(200, body)
    with pytest.raises(DownloadError, match="no list of files that can be read"):
        look("o/r", None)


def test_names_of_repositories_are_told_from_files() -> None:
    assert repository_named("hf:o/r") == repository_named("hf:o/r:Q8_0") == "o/r"
    assert repository_named("hf:o/r/x.gguf") is repository_named("o/r") is repository_named("hf:o") is None


def test_a_quantisation_names_its_file(hub: Hub) -> None:
    serve_tree(hub, FILES)
    assert file_named("hf:o/r:q4_k_m") == "hf:o/r/m-Q4_K_M.gguf"
    assert file_named("hf:o/r/any.gguf") == "hf:o/r/any.gguf" and len(hub.requests) == 1
    for text, reason in (
        ("hf:o/r:Q5_0", "is not there"),
        ("hf:o/r:F16", "more than once"),
        ("hf:o/r", "names no file"),
    ):
        with pytest.raises(UsageError, match=reason) as refusal:
            file_named(text)
        assert "Q4_K_M, Q8_0" in str(refusal.value.hint)


def test_a_model_is_fetched_by_its_quantisation_and_recorded(hub: Hub, tmp_path: Path) -> None:
    serve_tree(hub, [file_entry("m-Q8_0.gguf", len(MODEL), sha256(MODEL))])
    hub.scripts["/o/r/resolve/main/m-Q8_0.gguf"] = serve_file(MODEL)
    entry = pull("hf:o/r:Q8_0", Library(tmp_path / "models"))
    assert entry.path.name == "m-Q8_0.gguf" and entry.path.read_bytes() == MODEL
    record = recall(tmp_path / "models", "m-Q8_0.gguf")
    assert record is not None and (record.source, record.sha256) == ("hf:o/r:Q8_0", sha256(MODEL))


def test_what_no_server_vouches_for_is_recorded_too(hub: Hub, tmp_path: Path) -> None:
    hub.scripts["/x.gguf"] = serve_file(MODEL)
    pull(f"{hub.url}/x.gguf", Library(tmp_path / "models"))
    record = recall(tmp_path / "models", "x.gguf")
    assert record is not None and record.sha256 == sha256(MODEL)


def test_the_command_line_lists_a_repository_and_says_how_to_go_on(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.hub.fit.free_memory", lambda: 8 * GB)
    serve_tree(hub, FILES)
    for command in ("pull", "show"):
        assert run(["models", command, "hf:o/r"]) == 0
        shown = capsys.readouterr()
        (marked,) = (line for line in shown.out.splitlines() if line.startswith("*"))
        assert marked.split() == ["*", "Q4_K_M", "2.5", "GB", "fits", "m-Q4_K_M.gguf"]
        assert "needs ~8.8 GB, 8.0 GB free  f16/m-F16-00001-of-00002.gguf  2 parts" in shown.out
        assert "'qchat models pull hf:o/r:Q4_K_M' fetches it" in shown.err
    assert run(["models", "show", "hf:o/r", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [offer["source"] for offer in facts["offers"] if offer["best"]] == ["hf:o/r/m-Q4_K_M.gguf"]
    assert not paths().models_dir.exists(), "nothing is fetched by a list"


def test_a_repository_without_models_is_told_of(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    serve_tree(hub, FILES[:1])
    assert run(["models", "show", "hf:o/r"]) == 0
    assert "has no .gguf file" in capsys.readouterr().err


def test_offers_of_one_kind_are_named_by_their_files() -> None:
    repository = offered("o/r", [("a-Q8_0.gguf", 5), ("b-Q8_0.gguf", 6)], None)
    assert isinstance(repository.offers[0], Offer)
    assert repository.short_source(repository.offers[0]) == "hf:o/r/a-Q8_0.gguf"
