"""Whether files are what they should be: every known value is compared, and what was compared is said."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from app.hub.download import pull
from app.hub.library import Library
from app.hub.library.huggingface import HuggingFaceStore
from app.hub.library.ollama import OllamaStore
from app.hub.records import FOLDER, Record, recall, remember
from app.hub.verify import Verdict, verify
from app.settings import paths, private_dir
from tests.gguf_files import make_model, split_model
from tests.hub.library.stores import MODEL, in_hugging_face_cache, in_ollama, sha256

pytestmark = pytest.mark.usefixtures("qchat_home")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "models", [HuggingFaceStore(tmp_path / "hub"), OllamaStore(tmp_path / "ollama")])
    library.prepare()
    return library


def check(library: Library, name: str) -> Verdict:
    seen: list[tuple[str, int, int | None]] = []
    verdict = verify(library.get(name, broken=True), library, lambda *step: seen.append(step))
    assert all(done <= (total or 0) for _, done, total in seen)
    if verdict.checked.startswith("SHA-256") and verdict.good:
        assert seen and seen[-1][1] == seen[-1][2] and name in seen[-1][0]
    return verdict


def flip_a_byte(path: Path) -> None:
    """Of the last tensor, which no header tells of."""
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)


def test_a_file_of_ollama_is_compared_with_its_name(library: Library, tmp_path: Path) -> None:
    blob = in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/a/b")
    assert check(library, "ollama:a:b") == Verdict(True, "SHA-256 against Ollama", "", sha256(MODEL))
    flip_a_byte(blob)
    verdict = check(library, "ollama:a:b")
    assert not verdict.good and verdict.sha256 == sha256(blob.read_bytes())
    assert str(verdict.sha256) in verdict.problem and sha256(MODEL) in verdict.problem


def test_every_part_in_the_hugging_face_cache_is_compared(library: Library, tmp_path: Path) -> None:
    parts = split_model(tmp_path, "m", make_model(n_layers=1), 3)
    links = [in_hugging_face_cache(tmp_path / "hub", "o/r", part.name, part.read_bytes()) for part in parts]
    assert check(library, "hf:o/r/m") == Verdict(True, "SHA-256 of 3 files against the Hugging Face cache")
    flip_a_byte(links[1].resolve())
    assert "m-00002-of-00003.gguf has the SHA-256" in check(library, "hf:o/r/m").problem
    links[1].unlink()
    assert check(library, "hf:o/r/m").problem == "1 of 3 parts are missing: m-00002-of-00003.gguf"


def test_a_file_of_the_catalogue_is_compared_with_the_catalogue(library: Library) -> None:
    private_dir(paths().config_file.parent)
    listed = f'[mine]\nsource = "hf:o/r/m.gguf"\nsha256 = "{sha256(MODEL)}"\n'
    paths().catalogue_file.write_text(listed)
    path = library.models_dir / "m.gguf"
    path.write_bytes(MODEL)
    assert check(library, "mine") == Verdict(True, "SHA-256 against the catalogue", "", sha256(MODEL))
    flip_a_byte(path)
    assert not check(library, "mine").good


def test_a_fetched_file_is_compared_with_its_record(library: Library) -> None:
    path = library.models_dir / "m.gguf"
    path.write_bytes(MODEL)
    remember(library.models_dir, "m.gguf", Record("hf:o/r/m.gguf", sha256(MODEL)))
    assert check(library, "m") == Verdict(True, "SHA-256 against the download", "", sha256(MODEL))
    flip_a_byte(path)
    assert not check(library, "m").good
    library.remove("m")
    assert recall(library.models_dir, "m.gguf") is None, "a record does not outlive its file"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "\x00", f'{{"source": 1, "sha256": "{"0" * 64}"}}', '{"source": "s", "sha256": "0"}',
        f'{{"source": "s", "sha256": {[0] * 64}}}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_none(library: Library, text: str) -> None:
    remember(library.models_dir, "m.gguf", Record("s", "0" * 64))
    (library.models_dir / FOLDER / "m.gguf.json").write_text(text)
    assert recall(library.models_dir, "m.gguf") is None


def test_a_record_is_private_and_no_model(library: Library) -> None:
    remember(library.models_dir, "m.gguf", Record("s", "0" * 64))
    file = library.models_dir / FOLDER / "m.gguf.json"
    assert file.stat().st_mode & 0o777 == 0o600 and json.loads(file.read_text())["source"] == "s"
    assert library.list() == []


def test_without_a_known_value_header_and_bounds_are_checked_and_that_is_said(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(MODEL)
    pull(str(file), library)
    verdict = check(library, "mine")
    assert verdict.good and verdict.checked.endswith("tensors; no SHA-256 of it is known") and verdict.sha256 is None
    file.write_bytes(MODEL[:-200])
    assert "incomplete" in check(library, "mine").problem
    file.unlink()
    assert "cannot be opened" in check(library, "mine").problem


def test_a_record_is_not_for_a_link_of_the_same_name(library: Library, tmp_path: Path) -> None:
    remember(library.models_dir, "mine.gguf", Record("s", hashlib.sha256(b"other").hexdigest()))
    file = tmp_path / "mine.gguf"
    file.write_bytes(MODEL)
    pull(str(file), library)
    assert check(library, "mine").good
