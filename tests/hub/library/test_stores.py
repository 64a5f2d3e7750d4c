"""What other programs keep on this disk: found where it lies, named for good, and never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import ModelNotFoundError, SettingsError, UsageError
from app.hub.library import Library, huggingface, library_of_this_machine, lmstudio, ollama
from app.hub.library.folder import FolderStore
from app.hub.library.huggingface import HuggingFaceStore
from app.hub.library.ollama import MODEL_LAYER, OllamaStore
from app.settings import paths, private_dir
from tests.gguf_files import make_model, split_model
from tests.hub.library.stores import COMMIT, MODEL, OLDER, in_hugging_face_cache, in_ollama, tree

pytestmark = pytest.mark.usefixtures("qchat_home")


def names(library: Library) -> list[str]:
    return [entry.name for entry in library.list()]


# -- the Hugging Face cache -------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


def test_a_file_of_the_hugging_face_cache_is_named_as_it_is_fetched(cache: Path, tmp_path: Path) -> None:
    link = in_hugging_face_cache(cache, "Qwen/Qwen3-0.6B-GGUF", "sub/Qwen3-0.6B-Q8_0.gguf")
    in_hugging_face_cache(cache, "org/no-models", "README.md", b"text")
    (cache / "datasets--a--b" / "snapshots" / COMMIT).mkdir(parents=True)
    library = Library(tmp_path / "models", [HuggingFaceStore(cache)])
    (entry,) = library.list()
    assert entry.name == "hf:Qwen/Qwen3-0.6B-GGUF/sub/Qwen3-0.6B-Q8_0"
    assert (entry.origin, entry.place, entry.size) == ("huggingface", "Hugging Face cache", len(MODEL))
    assert library.find(entry.name) == library.find(f"{entry.name}.gguf") == link


def test_a_name_is_the_current_file_and_another_content_has_its_revision(cache: Path, tmp_path: Path) -> None:
    old = in_hugging_face_cache(cache, "o/r", "x.gguf", commit=OLDER, current=OLDER)
    library = Library(tmp_path / "models", [HuggingFaceStore(cache)])
    assert names(library) == ["hf:o/r/x"]
    in_hugging_face_cache(cache, "o/r", "x.gguf")
    assert names(library) == ["hf:o/r/x"], "the same content in two revisions is one model"
    in_hugging_face_cache(cache, "o/r", "y.gguf", MODEL + b"\0", commit=OLDER)
    assert names(library) == ["hf:o/r/x", "hf:o/r/y"], "a newer revision that was fetched in part takes no name away"
    new = in_hugging_face_cache(cache, "o/r", "y.gguf", MODEL + b"\0\0")
    assert names(library) == ["hf:o/r/x", "hf:o/r/y", "hf:o/r@00000000/y"]
    assert library.find("hf:o/r/y") == new and library.find("hf:o/r@00000000/y") == old.with_name("y.gguf")


def test_the_parts_of_a_split_model_are_one(cache: Path, tmp_path: Path) -> None:
    parts = split_model(tmp_path, "big-Q4_K_M", make_model(n_layers=1), 3)
    for part in parts:
        in_hugging_face_cache(cache, "o/r", f"Q4/{part.name}", part.read_bytes())
    library = Library(tmp_path / "models", [HuggingFaceStore(cache)])
    (entry,) = library.list()
    assert entry.name == "hf:o/r/Q4/big-Q4_K_M" and entry.problem == ""
    assert entry.size == sum(part.stat().st_size for part in parts) and len(entry.files) == 3
    for name in (entry.name, f"{entry.name}.gguf", "hf:o/r/Q4/big-Q4_K_M-00002-of-00003.gguf"):
        assert library.find(name).name == parts[0].name
    entry.files[1].unlink()
    (entry,) = library.list()
    assert entry.problem == "1 of 3 parts are missing: big-Q4_K_M-00002-of-00003.gguf"
    with pytest.raises(ModelNotFoundError, match=r"parts are missing: big-Q4_K_M-00002-of-00003\.gguf"):
        library.find(entry.name)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/h"}, "/old"),
        ({"HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/h"}, "/c"),
        ({"HF_HUB_CACHE": "", "HF_HOME": ""}, "home/.cache/huggingface/hub"),
    ],
)
def test_where_the_hugging_face_cache_is(variables: dict[str, str], folder: str) -> None:
    assert huggingface.cache_folder(variables, Path("home")) == Path(folder)


# -- Ollama -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ("registry.ollama.ai/library/qwen3/0.6b", "ollama:qwen3:0.6b"),
        ("registry.ollama.ai/someone/qwen3/latest", "ollama:someone/qwen3:latest"),
        ("hf.co/Qwen/Qwen3-0.6B-GGUF/Q8_0", "ollama:hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0"),
        ("example.org/library/qwen3/0.6b", "ollama:example.org/library/qwen3:0.6b"),
    ],
)
def test_a_model_of_ollama_is_named_as_ollama_names_it(tmp_path: Path, manifest: str, name: str) -> None:
    blob = in_ollama(tmp_path / "o", manifest)
    library = Library(tmp_path / "models", [OllamaStore(tmp_path / "o")])
    (entry,) = library.list()
    assert (entry.name, entry.path, entry.size) == (name, blob, len(MODEL))
    assert library.find(name) == blob


def test_the_blobs_of_old_versions_have_a_colon(tmp_path: Path) -> None:
    blob = in_ollama(tmp_path, "registry.ollama.ai/library/a/b")
    old = blob.rename(blob.with_name(blob.name.replace("-", ":")))
    assert next(iter(OllamaStore(tmp_path).entries())).path == old


def layer(digest: str) -> dict[str, str]:
    return {"mediaType": MODEL_LAYER, "digest": digest}


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (b"{", "manifest is damaged"),
        (b"\xff\xfe", "manifest is damaged"),
        ([], "manifest is damaged"),
        ({"layers": [3]}, "manifest is damaged"),
        ({"layers": None}, "no GGUF file"),
        ({"layers": [layer(f"sha256:{'a' * 64}")] * 2}, "2 GGUF files"),
        ({"layers": [layer("sha256:../../../etc/passwd")]}, "manifest is damaged: digest"),
        ({"layers": [layer(f"sha256:{'a' * 64}")]}, "No such file"),
    ],
)
def test_a_broken_manifest_is_listed_with_the_reason(tmp_path: Path, manifest: object, reason: str) -> None:
    in_ollama(tmp_path, "registry.ollama.ai/library/a/b", manifest=manifest)
    library = Library(tmp_path / "models", [OllamaStore(tmp_path)])
    (entry,) = library.list()
    assert entry.name == "ollama:a:b" and reason in entry.problem
    with pytest.raises(ModelNotFoundError, match="cannot be used"):
        library.find(entry.name)


def test_where_ollama_keeps_its_models(tmp_path: Path) -> None:
    home, service = tmp_path / "home", tmp_path / "service"
    assert ollama.models_folder({}, home, service) == home / ".ollama" / "models"
    (service / "manifests").mkdir(parents=True)
    assert ollama.models_folder({}, home, service) == service
    (home / ".ollama" / "models" / "manifests").mkdir(parents=True)
    assert ollama.models_folder({}, home, service) == home / ".ollama" / "models"
    assert ollama.models_folder({"OLLAMA_MODELS": "/m"}, home, service) == Path("/m")


# -- LM Studio and folders --------------------------------------------------------------------------------------------


def test_where_lm_studio_keeps_its_models(tmp_path: Path) -> None:
    assert lmstudio.models_folder(tmp_path) == tmp_path / ".lmstudio" / "models"
    (tmp_path / ".cache" / "lm-studio").mkdir(parents=True)
    assert lmstudio.models_folder(tmp_path) == tmp_path / ".cache" / "lm-studio" / "models"
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{chosen}\n")
    assert lmstudio.models_folder(tmp_path) == chosen / "models"
    (chosen / "settings.json").write_text('{"downloadsFolder": "/nas"}')
    assert lmstudio.models_folder(tmp_path) == Path("/nas")
    (chosen / "settings.json").write_text('["damaged"')
    assert lmstudio.models_folder(tmp_path) == chosen / "models"


def test_a_model_of_lm_studio_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "lm" / "publisher" / "model" / "x-Q8_0.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(MODEL)
    library = Library(tmp_path / "models", [lmstudio.lm_studio_store(tmp_path / "lm")])
    (entry,) = library.list()
    assert (entry.name, entry.place) == ("lmstudio:publisher/model/x-Q8_0", "LM Studio")
    assert library.find(entry.name) == library.find("lmstudio:publisher/model/x-Q8_0.gguf") == file


def test_a_folder_is_searched_to_its_end_but_not_what_is_hidden(tmp_path: Path) -> None:
    root = tmp_path / "nas"
    for name in ("a.gguf", "deep/er/b.GGUF", ".hidden.gguf", ".cache/c.gguf", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(MODEL)
    library = Library(tmp_path / "models", [FolderStore("nas", "your folder nas", root)])
    assert names(library) == ["nas:a", "nas:deep/er/b"]
    assert library.find("nas:deep/er/b") == root / "deep/er/b.GGUF"


def test_a_split_model_beside_its_joined_copy_has_another_name(tmp_path: Path) -> None:
    split_model(tmp_path, "m", make_model(n_layers=1), 2)
    (tmp_path / "m.gguf").write_bytes(MODEL)
    library = Library(tmp_path / "models", [FolderStore("nas", "your folder nas", tmp_path)])
    assert names(library) == ["nas:m", "nas:m-in-2-parts"]
    assert library.find("nas:m") == tmp_path / "m.gguf"
    assert library.find("nas:m-in-2-parts") == tmp_path / "m-00001-of-00002.gguf"


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path: Path) -> Library:
    """One model, the same file name and bytes, in every place."""
    in_hugging_face_cache(tmp_path / "hub", "o/r", "x.gguf")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/x/latest")
    for folder in (tmp_path / "lm" / "o" / "r", tmp_path / "nas", tmp_path / "models"):
        folder.mkdir(parents=True)
        (folder / "x.gguf").write_bytes(MODEL)
    stores = [
        FolderStore("nas", "your folder nas", tmp_path / "nas"),
        HuggingFaceStore(tmp_path / "hub"),
        lmstudio.lm_studio_store(tmp_path / "lm"),
        OllamaStore(tmp_path / "ollama"),
    ]
    return Library(tmp_path / "models", stores)


def test_no_two_models_share_a_name_and_each_name_leads_to_its_own(full: Library) -> None:
    assert names(full) == ["x", "nas:x", "hf:o/r/x", "lmstudio:o/r/x", "ollama:x:latest"]
    for entry in full.list():
        assert full.find(entry.name) == entry.path and full.get(str(entry.path)).name == entry.name


def test_a_name_does_not_change_with_what_comes_beside_it(full: Library, tmp_path: Path) -> None:
    before = set(names(full))
    (tmp_path / "nas" / "sub").mkdir()
    (tmp_path / "nas" / "sub" / "x.gguf").write_bytes(MODEL)
    in_hugging_face_cache(tmp_path / "hub", "other/r", "x.gguf")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/x/8b")
    assert before < set(names(full))


def test_only_what_is_in_the_models_folder_is_removed(full: Library, tmp_path: Path) -> None:
    before = tree(*(tmp_path / name for name in ("nas", "hub", "lm", "ollama")))
    for entry in full.list():
        if not entry.is_ours:
            with pytest.raises(UsageError, match="not qchat's to remove") as refusal:
                full.remove(entry.name)
            assert entry.place in refusal.value.message and refusal.value.hint
    full.remove("x")
    assert "x" not in names(full)
    assert tree(*(tmp_path / name for name in ("nas", "hub", "lm", "ollama"))) == before


def test_a_file_name_alone_is_answered_with_the_name_to_use(full: Library) -> None:
    full.remove("x")
    with pytest.raises(ModelNotFoundError) as missing:
        full.find("x.gguf")
    assert "did you mean nas:x?" in str(missing.value.hint)


def test_a_file_that_is_called_like_a_model_of_a_store_is_reached_by_its_path(full: Library, tmp_path: Path) -> None:
    path = tmp_path / "models" / "ollama:x:latest.gguf"
    path.write_bytes(MODEL)
    assert full.find("ollama:x:latest").parent.name == "blobs"
    assert str(path) in names(full) and full.find(str(path)) == path


def test_stores_that_cannot_be_read_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for root in (tmp_path / "missing", tmp_path / "file"):
        stores = [HuggingFaceStore(root), OllamaStore(root), FolderStore("nas", "your folder nas", root)]
        assert Library(root, stores).list() == []


# -- as the settings have it ------------------------------------------------------------------------------------------


def write_config(text: str) -> None:
    private_dir(paths().config_file.parent)
    paths().config_file.write_text(text)


def test_folders_of_the_settings_are_part_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.gguf").write_bytes(MODEL)
    write_config('[folders]\nnas = "~"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    library = library_of_this_machine()
    assert library.find("nas:x") == tmp_path / "x.gguf"
    assert library.list()[0].place == "your folder nas"


def test_other_stores_are_there_unless_they_are_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_hugging_face_cache(tmp_path / "hub", "o/r", "x.gguf")
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/x/latest")
    (tmp_path / ".lmstudio" / "models").mkdir(parents=True)
    (tmp_path / ".lmstudio" / "models" / "x.gguf").write_bytes(MODEL)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_of_this_machine().list() == []
    monkeypatch.delenv("QCHAT_OTHER_STORES")
    assert names(library_of_this_machine()) == ["hf:o/r/x", "lmstudio:x", "ollama:x:latest"]


@pytest.mark.parametrize("name", ["hf", "ollama", "qwen3", "a", "a/b", '"a b"'])
def test_a_folder_name_that_is_taken_or_odd_is_refused(name: str) -> None:
    key = name if name.startswith('"') else f'"{name}"'
    write_config(f'[folders]\n{key} = "/x"\n')
    with pytest.raises(SettingsError, match="the folder name") as refusal:
        library_of_this_machine()
    assert str(paths().config_file) in refusal.value.message
