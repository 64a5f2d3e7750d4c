"""Split models: several files read as one, and what is said where they do not belong together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from app.engine.gguf import read_gguf, read_model
from app.engine.part_names import PartName
from app.engine.spec import ModelSpec
from app.engine.strings import Unread
from app.errors import ModelFileError, UnsupportedModelError
from tests.gguf_files import MERGES, Model, assemble, entry, make_model, split_model, tensor


@pytest.fixture
def whole() -> Model:
    return make_model(n_layers=2)


@pytest.fixture
def parts(tmp_path: Path, whole: Model) -> list[Path]:
    return split_model(tmp_path, "m", whole, 3)


def test_parts_are_read_as_the_whole_file_is(tmp_path: Path, whole: Model, parts: list[Path]) -> None:
    one = whole.write(tmp_path / "whole.gguf")
    with read_gguf(one) as expected, read_model(parts[0]) as joined:
        assert set(joined.tensors) == set(expected.tensors)
        assert {info.part for info in joined.tensors.values()} == {0, 1, 2}
        for name in expected.tensors:
            assert np.array_equal(joined.read(name), expected.read(name))
        assert joined.metadata.keys() == expected.metadata.keys()
        assert joined.size == sum(part.stat().st_size for part in parts) and joined.paths == tuple(parts)
        ours, theirs = ModelSpec.from_gguf(joined), ModelSpec.from_gguf(expected)
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    with read_model(parts[2]) as joined:
        assert joined.path == parts[0], "any part stands for them all"
    with read_model(one) as alone:
        assert alone.paths == (one,)


def test_links_to_parts_lead_to_them_wherever_they_are(tmp_path: Path, parts: list[Path]) -> None:
    """The cache of the hub links every part; a file that is used in place has a link to its first part alone."""
    for names in (parts, parts[:1]):
        folder = tmp_path / f"{len(names)} links"
        folder.mkdir()
        for part in names:
            (folder / part.name).symlink_to(part)
        with read_model(folder / parts[0].name) as joined:
            beside = folder if names == parts else tmp_path
            assert joined.paths == tuple(beside / part.name for part in parts)


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    parts[1].unlink()
    with pytest.raises(ModelFileError, match=r"part 2 of 3 of the model is missing: m-00002-of-00003\.gguf$"):
        read_model(parts[0])
    parts[2].unlink()
    with pytest.raises(ModelFileError, match=r"m-00002-of-00003\.gguf and 1 more$"):
        read_model(parts[0])


def test_parts_of_other_models_are_refused(tmp_path: Path, parts: list[Path]) -> None:
    right = parts[1].read_bytes()
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(ModelFileError, match=r"m-00002-of-00003\.gguf is not part 2 of 3"):
        read_model(parts[0])
    parts[1].write_bytes(right)
    other = tmp_path / "other"
    other.mkdir()
    stranger = split_model(other, "m", make_model(n_layers=1), 3)
    parts[2].write_bytes(stranger[2].read_bytes())
    with pytest.raises(ModelFileError, match=r"in two parts|tensors where \d+ are promised"):
        read_model(parts[0])


def test_a_part_under_another_name_cannot_tell_the_others(tmp_path: Path, parts: list[Path]) -> None:
    renamed = parts[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFileError, match="one of 3 parts of a model, and its name"):
        read_model(renamed)


def test_a_part_whose_name_counts_otherwise_than_it_does_cannot_tell_the_others(tmp_path: Path, whole: Model) -> None:
    part = split_model(tmp_path, "m", whole, 4)[0]
    with pytest.raises(ModelFileError, match="is one of 4 parts of a model, and its name"):
        read_model(part.rename(tmp_path / "m-00001-of-00003.gguf"))


def test_a_part_of_a_model_in_more_parts_is_refused(tmp_path: Path, whole: Model, parts: list[Path]) -> None:
    (tmp_path / "other").mkdir()
    parts[1].write_bytes(split_model(tmp_path / "other", "m", whole, 4)[1].read_bytes())
    with pytest.raises(ModelFileError, match=r"m-00002-of-00003\.gguf is not part 2 of 3 by what it says"):
        read_model(parts[0])


def write_parts(folder: Path, *names: Sequence[str], promised: int | None = None) -> Path:
    """The first of the files of a model that hold tensors of these names."""
    for number, held in enumerate(names):
        split = {"split.no": np.uint16(number), "split.count": np.uint16(len(names))}
        entries = [entry(key, value) for key, value in split.items()]
        if promised is not None:
            entries.append(entry("split.tensors.count", promised))
        tensors = [tensor(name, np.ones((1, 32), np.float32)) for name in held]
        (folder / f"t-{number + 1:05d}-of-{len(names):05d}.gguf").write_bytes(assemble(entries, tensors))
    return folder / f"t-00001-of-{len(names):05d}.gguf"


def test_a_tensor_is_in_one_part(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"tensor 'b' is in two parts of t-00002-of-00002\.gguf"):
        read_model(write_parts(tmp_path, "ab", "bc"))
    with read_model(write_parts(tmp_path, "ab", "c")) as model:
        assert set(model.tensors) == set("abc")


@pytest.mark.parametrize("promised", [2, 4])
def test_parts_hold_as_many_tensors_as_are_promised(tmp_path: Path, promised: int) -> None:
    with pytest.raises(ModelFileError, match=f"hold 3 tensors where {promised} are promised"):
        read_model(write_parts(tmp_path, "ab", "c", promised=promised))
    read_model(write_parts(tmp_path, "ab", "c", promised=3)).close()


def test_no_file_is_left_open(parts: list[Path]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_model(parts[0]).close()
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(ModelFileError):
        read_model(parts[0])
    parts[2].write_bytes(b"GGUF")
    with pytest.raises(ModelFileError):
        read_model(parts[0])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_part_alone_is_not_a_model(parts: list[Path]) -> None:
    with read_gguf(parts[0]) as part, pytest.raises(UnsupportedModelError, match="one of 3 parts"):
        ModelSpec.from_gguf(part)


def test_a_damaged_part_is_the_one_that_is_named(parts: list[Path]) -> None:
    parts[2].write_bytes(parts[2].read_bytes()[:-100])
    with pytest.raises(ModelFileError, match=r"m-00003-of-00003\.gguf is incomplete"):
        read_model(parts[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-00002-of-00003.gguf", PartName("a", 2, 3)),
        ("A-00001-of-00001.GGUF", PartName("A", 1, 1, ".GGUF")),
        ("a.gguf", None),
        ("a-2-of-3.gguf", None),
        ("a-00000-of-00003.gguf", None),
        ("a-00004-of-00003.gguf", None),
        ("a-00001-of-99999.gguf", None),
    ],
)
def test_the_names_of_parts(name: str, expected: PartName | None) -> None:
    assert PartName.read(name) == expected
    assert expected is None or name in expected.all


def test_a_list_does_not_need_its_strings_to_be_text(tmp_path: Path) -> None:
    model = make_model()
    path = tmp_path / "m.gguf"
    path.write_bytes(model.to_bytes().replace("Ġ w".encode(), b"\xff\xff w"))
    with pytest.raises(ModelFileError, match="not valid UTF-8"):
        read_gguf(path)
    with read_gguf(path, texts=False) as file:
        assert file.metadata["tokenizer.ggml.merges"] == Unread(len(MERGES))
        assert file.metadata["general.architecture"] == "qwen3"


def test_a_list_finds_a_header_that_is_cut_wherever_that_is(tmp_path: Path) -> None:
    whole = make_model().to_bytes()
    path = tmp_path / "m.gguf"
    end = whole.index(b"token_embd.weight")
    for length in range(24, end):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError) as read:
            read_gguf(path)
        with pytest.raises(ModelFileError) as listed:
            read_gguf(path, texts=False)
        assert listed.value.message == read.value.message
