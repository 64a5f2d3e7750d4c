"""Text files as part of a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors import UsageError
from app.ui.attachment import MOST_BYTES, read_attachment


def test_a_text_file_becomes_a_fenced_block_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "x y.py"
    file.write_bytes("\ufeffprint('🐺')\r\nx = 1\n".encode())
    attachment = read_attachment(f"'{file}'")
    assert attachment.block == "x y.py:\n```py\nprint('🐺')\nx = 1\n```"
    assert attachment.said == "x y.py: 24 B, 2 lines"


def test_nothing_in_the_file_ends_the_block(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("a\n`````\nb")
    assert read_attachment(str(file)).block == "notes:\n``````\na\n`````\nb\n``````"


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"PNG\0\1", "no text file"), (b"caf\xe9" * 300, "UTF-8 (1 kB)"), (b"x" * (MOST_BYTES + 1), "too large: 4.0 MB")],
    ids=["binary", "latin-1", "large"],
)
def test_what_is_no_text_is_refused_with_its_size(tmp_path: Path, data: bytes, why: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(UsageError) as raised:
        read_attachment(str(file))
    assert why in raised.value.message


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in [("none", "No such file"), ("", "folder"), ("pipe", "no regular file"), ("a\0b", "cannot read")]:
        with pytest.raises(UsageError, match=why):
            read_attachment(f"{tmp_path}/{name}")
