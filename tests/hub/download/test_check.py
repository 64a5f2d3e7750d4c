"""Whether what came is the model, or the part of it, that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import DownloadError, ModelFileError
from app.hub.download.check import check_model
from tests.hub.files import some_tensors, write_gguf


@pytest.mark.parametrize(
    ("facts", "asked", "says"),
    [
        ({}, (0, 1), None),
        ({"split.no": 1, "split.count": 3}, (1, 3), None),
        ({"split.no": 1, "split.count": 4}, (1, 3), "it is part 2 of 4, not 2 of 3"),
        ({"split.no": 2, "split.count": 3}, (1, 3), "it is part 3 of 3, not 2 of 3"),
        ({"split.no": 0, "split.count": 3}, (0, 1), "it is part 1 of 3, not 1 of 1"),
        ({}, (0, 3), "it is part 1 of 1, not 1 of 3"),
    ],
)
def test_a_file_is_the_part_that_it_says(
    tmp_path: Path, facts: dict[str, int], asked: tuple[int, int], says: str | None
) -> None:
    path = write_gguf(tmp_path / "x.gguf", some_tensors(), facts)
    if says is None:
        check_model(path, *asked)
    else:
        with pytest.raises(ModelFileError, match=says):
            check_model(path, *asked)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "an empty file"),
        (b"\n  <!DocType html>", "a web page"),
        (b"<HTML>", "a web page"),
        (b'<?xml version="1.0"?><Error>', "a web page"),
        *((magic + b"\x01\0\0\0", "a GGML file") for magic in (b"lmgg", b"fmgg", b"tjgg", b"ggjt")),
        (b"PK\x03\x04\n", r"something else, beginning with PK\\x03\\x04\\n"),
    ],
)
def test_what_is_no_model_is_told_by_its_kind(tmp_path: Path, body: bytes, kind: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(body)
    with pytest.raises(DownloadError, match=f"not a GGUF model but {kind}"):
        check_model(path)
