"""A pull ends with a checked model under its name, or with a clear error and nothing."""

from __future__ import annotations

import json
import shutil
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.engine.gguf import read_model
from app.errors import DownloadError, ModelFileError, NetworkError, QChatError, UsageError
from app.hub import Library
from app.hub.download import pull
from app.hub.download.kept import kept_parts
from app.hub.wheel import Wheel, locate, wheel_in
from tests.hub.download.pulling import PATIENT, Pull, quick, with_tries
from tests.hub.download.scripted import Hub, after_probe, cut, serve_file, sha256
from tests.hub.files import left_in, some_tensors, write_gguf

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "source.gguf", some_tensors()).read_bytes()


def test_a_download_is_streamed_checked_and_named(hub: Hub, library: Library, model: bytes) -> None:
    hub.scripts[PATH] = serve_file(model)
    seen: list[tuple[str, int, int | None]] = []
    entry = pull("hf:o/r/x.gguf", library, lambda *step: seen.append(step))
    assert entry.path.read_bytes() == model
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    assert ("downloading", len(model), len(model)) in seen
    assert all(done <= len(model) for _, done, _ in seen)
    assert left_in(library) == ["x.gguf"]


def test_a_model_that_is_here_is_not_fetched_again(hub: Hub, library: Library, model: bytes) -> None:
    hub.scripts[PATH] = serve_file(model)
    said: list[str] = []
    pull("hf:o/r/x.gguf", library)
    requests = len(hub.requests)
    pull("hf:o/r/x.gguf", library, notify=said.append)
    assert len(hub.requests) == requests
    assert len(said) == 1 and "already" in said[0]


def test_no_server_is_a_network_error(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9") as failure:
        pull("hf:o/r/x.gguf", library)
    assert failure.value.exit_code == 3


def test_a_bad_proxy_setting_is_a_message(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    with pytest.raises(UsageError, match="proxy"):
        pull("https://host.example/x.gguf", library)


def test_a_model_that_does_not_fit_is_refused_before_it_comes(
    hub: Hub, library: Library, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.scripts[PATH] = serve_file(model)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(DownloadError, match=r"10 are free"):
        pull("hf:o/r/x.gguf", library)
    assert left_in(library) == []


def test_a_path_that_is_no_model_is_not_registered(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(ModelFileError):
        pull(str(file), library)
    assert left_in(library) == []


HOSTILE = [
    "../../evil.gguf", "/abs/x.gguf", "C:\\x.gguf", "a\\..\\..\\x.gguf", "\\\\host\\s\\x.gguf", "sub/../ok.gguf",
    "a\nb\x1b[2J.gguf", "n" * 300 + ".gguf", ".gguf", "CON.gguf", "x.gguf/", "x.gguf.part", "x.gguf:stream",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["hf:o/r/{}", "http://127.0.0.1:9/o/{}", "pypi:some-thing/{}"])
def test_a_hostile_name_is_refused_before_anything_is_asked(
    library: Library, tmp_path: Path, form: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    library.models_dir.symlink_to(elsewhere)
    before = sorted(tmp_path.rglob("*"))
    if "sub/.." in name and form.startswith("http"):
        name = name.replace("/", "%2F")  # as a path of a URL it means ok.gguf, as browsers have it
    if name.startswith(("../", "/abs")) and form.startswith("http"):
        name = name.replace("/", "%2f")
    with pytest.raises(UsageError) as refusal:
        pull(form.format(name), library)
    assert "\x1b" not in refusal.value.message + str(refusal.value.hint)
    assert "\n" not in refusal.value.message
    assert sorted(tmp_path.rglob("*")) == before


# -- models in parts --------------------------------------------------------------------------------------------------


@pytest.fixture
def parts(hub: Hub, tmp_path: Path) -> dict[str, bytes]:
    """A split model on the hub."""
    bodies = {}
    for number in range(3):
        name = f"p-{number + 1:05d}-of-00003.gguf"
        facts = {"split.no": number, "split.count": 3}
        bodies[name] = write_gguf(tmp_path / name, some_tensors(seed=number + 1), facts).read_bytes()
        (tmp_path / name).unlink()
        hub.scripts[f"/o/r/resolve/main/{name}"] = serve_file(bodies[name])
    return bodies


@pytest.mark.parametrize("asked", ["p-00001-of-00003.gguf", "p-00003-of-00003.gguf"])
def test_a_model_in_parts_is_fetched_whole_and_is_one_model(
    library: Library, parts: dict[str, bytes], asked: str
) -> None:
    seen: list[tuple[str, int, int | None]] = []
    entry = pull(f"hf:o/r/{asked}", library, lambda *step: seen.append(step))
    assert {name: (library.models_dir / name).read_bytes() for name in left_in(library)} == parts
    assert [model.name for model in library.own()] == [entry.name] == ["p"]
    with read_model(entry.path) as model:
        assert set(model.tensors) == set(some_tensors(seed=1) | some_tensors(seed=2) | some_tensors(seed=3))
    whole = sum(map(len, parts.values()))
    downloading = [(done, total) for stage, done, total in seen if stage == "downloading"]
    assert downloading[-1] == (whole, whole) and {total for _, total in downloading} == {whole}


def test_parts_that_are_here_are_not_fetched_again(hub: Hub, library: Library, parts: dict[str, bytes]) -> None:
    pull("hf:o/r/p-00001-of-00003.gguf", library)
    requests = hub.requests[:]
    (library.models_dir / "p-00002-of-00003.gguf").unlink()
    pull("hf:o/r/p-00001-of-00003.gguf", library)
    assert left_in(library) == sorted(parts)
    again = {request.path for request in hub.requests[len(requests) :]}
    assert all("p-00002" in path or path.startswith("/api/") for path in again)


def test_a_part_that_cannot_be_had_leaves_no_part_under_its_name(
    hub: Hub, library: Library, parts: dict[str, bytes]
) -> None:
    del hub.scripts["/o/r/resolve/main/p-00003-of-00003.gguf"]
    with pytest.raises(DownloadError, match="404"):
        pull("hf:o/r/p-00001-of-00003.gguf", library)
    assert library.own() == [] and left_in(library) == []


def test_a_part_of_another_model_is_refused(hub: Hub, library: Library, parts: dict[str, bytes]) -> None:
    hub.scripts["/o/r/resolve/main/p-00002-of-00003.gguf"] = serve_file(parts["p-00003-of-00003.gguf"])
    with pytest.raises(ModelFileError, match="part 3 of 3, not 2 of 3"):
        pull("hf:o/r/p-00001-of-00003.gguf", library)
    assert library.own() == []


# -- models in wheels -------------------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(index: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(index / "qchat_test_model-1.0-py3-none-any.whl", "w") as wheel:
        info = "qchat_test_model-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: qchat-test-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        for name, body in members.items():
            wheel.writestr(name, body)


def test_a_model_comes_out_of_a_wheel(index: Path, library: Library, model: bytes) -> None:
    make_wheel(index, {"qchat_test_model/x.gguf": model, "qchat_test_model/__init__.py": b"raise SystemExit('ran')"})
    entry = pull("pypi:qchat-test-model/x.gguf", library)
    assert entry.path.read_bytes() == model
    assert left_in(library) == ["x.gguf"]
    assert "qchat_test_model" not in sys.modules


def test_a_wheel_without_the_file_names_what_it_has(index: Path, library: Library, model: bytes) -> None:
    make_wheel(index, {"qchat_test_model/y.gguf": model})
    with pytest.raises(DownloadError, match=r"holds no x\.gguf") as failure:
        pull("pypi:qchat-test-model/x.gguf", library)
    assert "y.gguf" in str(failure.value.hint)
    assert left_in(library) == []


WHEEL = "/files/qchat_test_model-1.0-py3-none-any.whl"
SOURCE = "pypi:qchat-test-model/x.gguf"


@pytest.fixture
def served(hub: Hub, index: Path, model: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A wheel on a server, and a pip that says where it is; pip itself has it in a folder."""
    make_wheel(index, {"qchat_test_model/x.gguf": model, "qchat_test_model/padding": bytes(range(256)) * 1000})
    wheel = (index / "qchat_test_model-1.0-py3-none-any.whl").read_bytes()
    hub.scripts[WHEEL] = serve_file(wheel)
    said_to_be(hub, sha256(wheel), monkeypatch)
    return wheel


def said_to_be(hub: Hub, digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.wheel.locate", lambda *_: Wheel(hub.url + WHEEL, digest))


def test_a_wheel_is_gone_on_with_where_it_stopped(hub: Hub, library: Library, model: bytes, served: bytes) -> None:
    hub.scripts[WHEEL] = after_probe(lambda request: cut(request, served, 100_000), served)
    once = quick(with_tries(PATIENT, 1))
    with pytest.raises(NetworkError):
        Pull().run(SOURCE, library, once)
    (kept,) = kept_parts(library)
    assert (kept.name, kept.done, kept.total, kept.source) == ("x.gguf", 100_000, len(served), SOURCE)
    hub.requests.clear()
    hub.scripts[WHEEL] = serve_file(served)
    assert Pull().run(SOURCE, library, once).path.read_bytes() == model
    assert [request.range for request in hub.requests] == [(0, 0), (100_000, len(served) - 1)]
    assert left_in(library) == ["x.gguf"]


@pytest.mark.usefixtures("served")
def test_a_wheel_that_is_not_what_the_index_says_is_refused(
    hub: Hub, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    said_to_be(hub, sha256(b"another"), monkeypatch)
    with pytest.raises(DownloadError, match="came damaged"):
        pull(SOURCE, library)
    assert left_in(library) == []


@pytest.mark.usefixtures("served")
def test_a_wheel_that_was_fetched_and_has_something_else_is_not_kept(library: Library) -> None:
    with pytest.raises(DownloadError, match=r"holds no y\.gguf"):
        pull("pypi:qchat-test-model/y.gguf", library)
    assert left_in(library) == []


@pytest.mark.usefixtures("served")
def test_a_wheel_that_only_pip_is_given_is_left_to_pip(hub: Hub, library: Library, model: bytes) -> None:
    hub.scripts[WHEEL] = lambda request: request.answer(403)
    said: list[str] = []
    assert pull(SOURCE, library, notify=said.append).path.read_bytes() == model
    assert "answered 403" in said[0] and "pip is asked" in said[0] and left_in(library) == ["x.gguf"]


@pytest.mark.parametrize(
    ("url", "hashes", "usable"),
    [
        ("https://files.example/a.whl", {"sha256": "AB"}, True),
        ("https://user:****@files.example/a.whl", {"sha256": "ab"}, False),
        ("file:///srv/wheels/a.whl", {"sha256": "ab"}, False),
        ("https://files.example/a.whl", {"md5": "ab"}, False),
    ],
)
def test_what_pip_says_of_a_wheel(tmp_path: Path, url: str, hashes: dict[str, str], usable: bool) -> None:
    report = tmp_path / "report.json"
    found = {"install": [{"download_info": {"url": url, "archive_info": {"hashes": hashes}}}]}
    report.write_text(json.dumps(found))
    assert wheel_in(report) == (Wheel(url, "ab") if usable else None)


@pytest.mark.parametrize("said", ["", "{}", '{"install": []}', "[1]"])
def test_a_report_that_says_nothing_leaves_it_to_pip(tmp_path: Path, said: str) -> None:
    (tmp_path / "report.json").write_text(said)
    assert wheel_in(tmp_path / "report.json") is None and wheel_in(tmp_path / "none") is None


def test_the_pip_of_this_machine_says_where_a_wheel_is_or_leaves_it_to_itself(
    hub: Hub, library: Library, tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index with hashes and metadata, as PyPI is one. A pip before 23.3 may fetch all of the wheel to answer."""
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.url}/simple/")
    make_wheel(tmp_path, {"qchat_test_model/x.gguf": model})
    wheel = (tmp_path / WHEEL.rpartition("/")[2]).read_bytes()
    page = f'<a href="{WHEEL}#sha256={sha256(wheel)}" data-dist-info-metadata="true">{WHEEL.rpartition("/")[2]}</a>'
    metadata = b"Metadata-Version: 2.1\nName: qchat-test-model\nVersion: 1.0\n"
    hub.scripts["/simple/qchat-test-model/"] = lambda r: r.answer(200, page.encode(), Content_Type="text/html")
    hub.scripts[WHEEL + ".metadata"] = lambda request: request.answer(200, metadata)
    hub.scripts[WHEEL] = serve_file(wheel)
    assert locate("qchat-test-model", tmp_path, lambda *_: None) == Wheel(hub.url + WHEEL, sha256(wheel))
    assert pull(SOURCE, library).path.read_bytes() == model
    assert any(request.range == (0, 0) for request in hub.requests), "it was fetched by qchat"


@pytest.mark.usefixtures("index")
def test_what_pip_cannot_find_is_said_in_one_line(library: Library) -> None:
    with pytest.raises(DownloadError, match="No matching distribution") as failure:
        pull("pypi:qchat-test-model/x.gguf", library)
    assert "\n" not in failure.value.message
    assert left_in(library) == []


def test_an_interpreter_without_pip_is_told_so(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DownloadError, match="needs pip"):
        pull("smollm2:135m", library)


def test_errors_are_the_kind_that_the_command_line_shows(library: Library) -> None:
    with pytest.raises(QChatError) as refusal:
        pull("no such thing", library)
    assert isinstance(refusal.value, UsageError) and refusal.value.exit_code == 2
