"""Damaged and foreign model files through the whole program: one or two lines, an exit code, nothing else (G rows)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import run
from tests.gguf_files import Model, make_model, write_model

pytestmark = pytest.mark.usefixtures("home_with_kernels")


def cut(share: float) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)] if share < 1 else data[:-1])

    return spoil


def changed(change: Callable[[Model], None]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        model = make_model()
        change(model)
        model.write(path)

    return spoil


def set_type(type_id: int) -> Callable[[Path], None]:
    def change(model: Model) -> None:
        model.tensors["blk.1.ffn_up.weight"].type = type_id

    return changed(change)


def set_key(key: str, value: object) -> Callable[[Path], None]:
    return changed(lambda model: model.metadata.__setitem__(key, value))


BAD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "last byte gone": (cut(1.0), "incomplete"),
    "half": (cut(0.5), "incomplete"),
    "empty": (cut(0.0), "bad.gguf"),
    "type 42": (set_type(42), "blk.1.ffn_up.weight"),
    "type 39, known by name": (set_type(39), "MXFP4"),
    "another architecture": (set_key("general.architecture", "gemma4"), "gemma4"),
    "architecture with controls": (set_key("general.architecture", "x\x1b[2J\n" * 1000), "\\x1b"),
    "tensor missing": (changed(lambda model: model.tensors.pop("output_norm.weight")), "output_norm.weight"),
    "shape": (set_key("qwen3.feed_forward_length", 480), "ffn_gate"),
    "tokenizer": (set_key("tokenizer.ggml.pre", "somebody's"), "somebody"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_two_lines_and_a_code(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = BAD_FILES[name]
    path = write_model(tmp_path / "bad.gguf")
    spoil(path)
    start = time.process_time()
    code = run(["ask", "-m", str(path), "--no-stdin", "hi"])
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert said in err
    assert 1 <= len(err.splitlines()) <= 2
    assert all(line.isprintable() for line in err.splitlines())
    assert "Traceback" not in err
    assert time.process_time() - start < 2


@pytest.mark.parametrize("name", ["half", "type 42"])
def test_with_json_it_is_one_document_too(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_model(tmp_path / "bad.gguf")
    BAD_FILES[name][0](path)
    assert run(["ask", "-m", str(path), "--no-stdin", "--json", "hi"]) == 1
    out, _ = capsys.readouterr()
    assert BAD_FILES[name][1] in json.loads(out)["error"]["message"]


def test_a_tied_head_and_a_copied_one_answer_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for head in ("tied", "copy"):
        path = write_model(tmp_path / f"{head}.gguf", head=head)
        run(["ask", "-m", str(path), "--no-stdin", "--json", "--temp", "0", "--max-tokens", "64", "hello"])
        answers.append(json.loads(capsys.readouterr().out)["answer_ids"])
    assert answers[0] == answers[1] and answers[0]
