"""`qchat models` on models that other programs keep: listed, shown, verified, completed, and left alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.cli import complete, run
from app.cli.completion import ASKED, LINE
from app.settings import paths, private_dir
from tests.gguf_files import make_model, split_model
from tests.hub.library.stores import MODEL, in_hugging_face_cache, in_ollama, tree

pytestmark = pytest.mark.usefixtures("stores")

HF, OLLAMA, STUDIO = "hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0", "ollama:qwen3:0.6b", "lmstudio:o/r/x"
GB = 10**9


@pytest.fixture
def stores(qchat_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models in every place that is not qchat's, two of them broken; the folder they are all in."""
    root = tmp_path / "others"
    in_hugging_face_cache(root / "hub", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf")
    in_ollama(root / "ollama", "registry.ollama.ai/library/qwen3/0.6b")
    in_ollama(root / "ollama", "registry.ollama.ai/library/broken/latest", manifest=b"{")
    (root / ".lmstudio" / "models" / "o" / "r").mkdir(parents=True)
    (root / ".lmstudio" / "models" / "o" / "r" / "x.gguf").write_bytes(MODEL)
    (root / "nas").mkdir()
    split_model(root / "nas", "big", make_model(n_layers=1), 3)[1].unlink()
    for name, value in {"HF_HUB_CACHE": "hub", "OLLAMA_MODELS": "ollama", "HOME": ""}.items():
        monkeypatch.setenv(name, str(root / value))
    monkeypatch.setenv("QCHAT_OTHER_STORES", "true")
    private_dir(paths().config_file.parent)
    paths().config_file.write_text(f'[folders]\nnas = "{root / "nas"}"\n')
    monkeypatch.setattr("app.hub.fit.free_memory", lambda: 8 * GB)
    return root


def document(args: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
    assert run(args) == code
    return json.loads(capsys.readouterr().out)


def by_name(rows: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_the_list_tells_whose_a_model_is_and_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == ["NAME", "nas:big", HF, STUDIO, "ollama:broken:latest", OLLAMA]
    assert "Hugging Face cache  712 kB  Q8_0  300      fits" in lines[HF]
    assert "LM Studio" in lines[STUDIO] and "Ollama" in lines[OLLAMA]
    assert "cannot run: 1 of 3 parts are missing: big-00002-of-00003.gguf" in lines["nas:big"]
    assert "cannot run: its manifest is damaged" in lines["ollama:broken:latest"]
    rows = by_name(document(["models", "list", "--json"], capsys))
    assert (rows[HF]["origin"], rows[HF]["store"]) == ("huggingface", "Hugging Face cache")
    assert rows[HF]["memory"]["verdict"] == "fits" and rows[HF]["memory"]["free_bytes"] == 8 * GB
    assert rows["nas:big"]["runnable"] is False and len(rows["nas:big"]["files"]) == 2


def test_each_name_can_be_shown_and_each_row_is_the_same_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    for name, store in ((HF, "Hugging Face cache"), (STUDIO, "LM Studio"), (OLLAMA, "Ollama")):
        facts = document(["models", "show", name, "--json"], capsys)
        assert (facts["model"], facts["store"], facts["fit"]["verdict"]) == (name, store, "fits")
        assert run(["models", "show", name]) == 0
        text = capsys.readouterr().out
        assert store in text and facts["path"] in text and "8.0 GB that are free" in text


def test_what_is_not_qchats_is_not_removed(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(stores)
    for name in (HF, STUDIO, OLLAMA, "nas:big", "ollama:broken:latest"):
        assert run(["models", "remove", name]) == 2
        shown = capsys.readouterr()
        assert "not qchat's to remove" in shown.err and shown.out == ""
    assert tree(stores) == before


def test_all_are_verified_and_what_was_compared_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "verify"]) == 1
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines[HF] == "good: SHA-256 against the Hugging Face cache"
    assert lines[OLLAMA] == "good: SHA-256 against Ollama"
    assert lines[STUDIO].startswith("good: the header and the bounds of ") and "no SHA-256" in lines[STUDIO]
    assert lines["nas:big"].startswith("BAD: 1 of 3 parts are missing")
    rows = by_name(document(["models", "verify", "--json"], capsys, 1))
    assert rows[HF]["good"] is True and rows["nas:big"]["good"] is False
    assert run(["models", "verify", HF]) == 0
    capsys.readouterr()
    assert document(["models", "verify", "nas:big", "--json"], capsys, 1)["problem"].startswith("1 of 3")


def test_a_changed_byte_is_found_and_is_exit_1(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (blob,) = (path for path in (stores / "ollama" / "blobs").iterdir() if path.stat().st_size == len(MODEL))
    blob.write_bytes(MODEL[:-1] + b"\x55")
    assert run(["models", "verify", OLLAMA]) == 1
    assert f"{OLLAMA}: BAD: {blob.name} has the SHA-256" in capsys.readouterr().out


def test_completion_knows_every_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def offered(line: str) -> list[str]:
        monkeypatch.setenv(LINE, line)
        monkeypatch.setenv(ASKED, "zsh_complete")
        assert complete("zsh_complete") == 0
        return [answer.split("\t")[1] for answer in capsys.readouterr().out.splitlines()]

    assert offered("qchat models show ") == ["nas:big", HF, STUDIO, "ollama:broken:latest", OLLAMA]
    assert offered("qchat ask -m hf:Q") == [HF]
    assert offered("qchat models verify oll") == ["ollama:broken:latest", OLLAMA]
    paths().config_file.write_text("[folders\n")
    assert offered("qchat models show ") == [""], "what cannot be read offers a file"
