"""Split models: several files read as one, and what is said where they do not belong together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from app.engine.gguf import read_gguf, read_model
from app.engine.part_names import PartName
from app.engine.spec import ModelSpec
from app.engine.strings import Unread
from app.errors import ModelFileError, UnsupportedModelError
from tests.gguf_files import MERGES, Model, make_model, split_model


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
            assert len(joined.paths) == 3


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
