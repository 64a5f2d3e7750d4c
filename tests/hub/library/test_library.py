"""Names to files, and what a removal removes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.errors import ModelNotFoundError
from app.hub import Library, ensure_model
from app.hub.catalogue import load_catalogue
from app.hub.download import pull
from app.hub.library.folder import FolderStore
from tests.hub.files import some_tensors, write_gguf

pytestmark = pytest.mark.usefixtures("qchat_home")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "models")
    library.prepare()
    return library


def test_the_folders_are_private(library: Library) -> None:
    assert stat.S_IMODE(library.models_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(library.incoming_dir.stat().st_mode) == 0o700


def test_a_model_answers_to_catalogue_name_file_name_and_stem(library: Library) -> None:
    file = library.models_dir / load_catalogue()["qwen3:4b"].file_name
    file.write_bytes(b"x" * 7)
    (library.models_dir / "notes.txt").touch()
    (library.models_dir / ".hidden.gguf").touch()
    assert [(entry.name, entry.size) for entry in library.list()] == [("qwen3:4b", 7)]
    for name in ("qwen3:4b", "Qwen3-4B-Q4_K_M", "Qwen3-4B-Q4_K_M.gguf", str(file)):
        assert library.find(name) == file


def test_a_file_that_is_called_as_the_catalogue_calls_another_keeps_its_own_name(library: Library) -> None:
    ours, theirs = library.models_dir / load_catalogue()["qwen3:4b"].file_name, library.models_dir / "qwen3:4b.gguf"
    for file in (ours, theirs):
        file.touch()
    assert [(entry.name, entry.path) for entry in library.own()] == [("qwen3:4b", ours), ("qwen3:4b.gguf", theirs)]
    assert (library.find("qwen3:4b"), library.find("qwen3:4b.gguf")) == (ours, theirs)


def test_a_model_that_is_called_as_a_folder_is_not_in_it(library: Library, tmp_path: Path) -> None:
    for file in (library.models_dir / "nas.gguf", tmp_path / "nas" / "x.gguf"):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    library = Library(library.models_dir, [FolderStore("nas", "nas", tmp_path / "nas")])
    assert [entry.name for entry in library.list()] == ["nas", "nas:x"]
    assert library.find("nas") == library.models_dir / "nas.gguf"


def test_a_model_that_is_called_as_one_of_a_folder_is_called_by_its_path(library: Library, tmp_path: Path) -> None:
    ours, theirs = library.models_dir / "nas:x.gguf", tmp_path / "nas" / "x.gguf"
    for file in (ours, theirs):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    library = Library(library.models_dir, [FolderStore("nas", "nas", tmp_path / "nas")])
    assert {entry.name: entry.path for entry in library.list()} == {str(ours): ours, "nas:x": theirs}
    assert (library.find(str(ours)), library.find("nas:x")) == (ours, theirs)


def test_a_path_is_never_looked_up_as_a_name(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (library.models_dir / "x.gguf").touch()
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    assert library.find("x") == library.models_dir / "x.gguf"
    with pytest.raises(ModelNotFoundError):
        library.find("./x.gguf")
    (here / "x.gguf").touch()
    assert library.find("./x.gguf") == here / "x.gguf"


def test_a_missing_model_says_how_to_get_it(library: Library) -> None:
    for name, hint in (("qwen3:8b", "models pull qwen3:8b"), ("qwen3:8", "did you mean qwen3:8b"), ("./no", "path")):
        with pytest.raises(ModelNotFoundError) as missing:
            library.find(name)
        assert missing.value.hint is not None and hint in missing.value.hint
    with pytest.raises(ModelNotFoundError, match=r"\\x1b"):
        library.find("\x1b[2J")


def test_a_path_is_registered_in_place_and_forgotten_without_loss(library: Library, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "mine.gguf", some_tensors())
    entry = pull(str(file), library)
    assert (entry.name, entry.size, entry.linked_to) == ("mine", file.stat().st_size, file)
    assert library.find("mine").samefile(file)
    library.remove("mine")
    assert library.list() == [] and file.exists()


def test_a_link_that_leads_nowhere_is_listed_and_explained(library: Library, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "mine.gguf", some_tensors())
    pull(str(file), library)
    file.unlink()
    assert [entry.name for entry in library.list()] == ["mine"]
    with pytest.raises(ModelNotFoundError, match="is gone"):
        library.find("mine")
    library.remove("mine")
    assert library.list() == []


def test_only_a_first_run_fetches_by_itself(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fake_pull(name: str, into: Library, *_: object) -> object:
        fetched.append(name)
        (into.models_dir / load_catalogue()[name].file_name).touch()
        return into.list()[0]

    monkeypatch.setattr("app.hub.download.pull", fake_pull)
    said: list[str] = []
    with pytest.raises(ModelNotFoundError):
        ensure_model("qwen3:4b", library, notify=said.append)
    assert fetched == said == []
    assert ensure_model("smollm2:135m", library, notify=said.append).exists()
    assert fetched == ["smollm2:135m"]
    assert len(said) == 1 and "Apache-2.0" in said[0] and "98 MB" in said[0]
    ensure_model("smollm2:135m", library)
    assert len(fetched) == 1


def test_with_other_models_here_the_starter_is_not_fetched(library: Library) -> None:
    (library.models_dir / "other.gguf").touch()
    with pytest.raises(ModelNotFoundError, match=r"smollm2:135m"):
        ensure_model("smollm2:135m", library)
