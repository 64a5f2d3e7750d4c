"""What lies in the folder of unfinished downloads: which model it is of, how far it is, and what it takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from app.hub.download import kept
from app.hub.download.identity import Identity
from app.hub.download.kept import KeptPart, kept_parts, remove_parts
from app.hub.download.state import State, save
from app.hub.library import Library


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path / "models")
    library.prepare()
    return library


def begun(library: Library, name: str, model: str, done: int, whole: int | None = 27_000) -> Path:
    """A part with `done` of 9,000 bytes."""
    path = library.incoming_dir / f"{name}.part"
    path.write_bytes(bytes(done))
    save(path, State(model, f"hf:o/r/{model}", "", Identity(9_000, etag="v"), whole, ((0, done),)))
    return path


def test_the_files_of_a_model_in_parts_are_one_download(library: Library) -> None:
    for number, done in enumerate((9_000, 4_000), 1):
        begun(library, f"p-{number:05d}-of-00003.gguf", "p.gguf", done)
    (part,) = kept_parts(library)
    assert (part.name, part.done, part.total, part.source) == ("p.gguf", 13_000, 27_000, "hf:o/r/p.gguf")
    assert kept.progress(library, "p.gguf") == (13_000, 27_000)
    assert kept.progress(library, "q.gguf") == (0, None)


@pytest.mark.parametrize("name", ["x.gguf", "x"])
def test_a_model_is_called_by_its_file_with_ending_or_without(library: Library, name: str) -> None:
    for model in ("x.gguf", "x.y.gguf"):
        begun(library, model, model, 5_000)
    assert [part.name for part in remove_parts(library, name)] == ["x.gguf"]
    assert [part.name for part in kept_parts(library)] == ["x.y.gguf"]


def test_what_a_killed_program_left_of_a_record_goes_with_its_model(library: Library) -> None:
    part = begun(library, "x.gguf", "x.gguf", 5_000)
    part.with_name("x.gguf.part.json.new").write_text("{")
    assert [each.name for each in kept_parts(library)] == ["x.gguf"]
    remove_parts(library, "x")
    assert list(library.incoming_dir.iterdir()) == []


def test_what_is_counted_is_the_room_on_the_disk(library: Library) -> None:
    with (library.incoming_dir / "x.gguf.part").open("wb") as file:
        file.seek(50_000_000)  # another connection was faster than the first
        file.write(bytes(1_000_000))
    assert 1_000_000 <= kept_parts(library)[0].n_bytes < 2_000_000


def test_a_system_that_does_not_tell_blocks_is_asked_for_lengths(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.incoming_dir / "x.gguf.part"
    path.write_bytes(bytes(5_000))
    said = path.stat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: SimpleNamespace(st_mode=said.st_mode, st_size=said.st_size))
    assert kept._disk_bytes(path) == 5_000


def test_a_file_that_goes_while_it_is_looked_at_counts_nothing(library: Library) -> None:
    """pip makes and removes files in its folder meanwhile."""
    scratch = library.incoming_dir / "x.gguf.pip"
    scratch.mkdir()
    (scratch / "gone").symlink_to(scratch / "elsewhere")
    (part,) = kept_parts(library)
    assert part == KeptPart("x.gguf", part.n_bytes, 0, None, "", busy=False)
