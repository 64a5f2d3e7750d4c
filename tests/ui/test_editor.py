"""Writing a text in the person's editor."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from app.errors import UsageError
from app.ui.editor import edit_text


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_text_comes_back_as_it_was_left(own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = own_temporary_folder / "an editor"
    script.write_text('#!/bin/sh\ntest $(stat -c %a "$2") = 600 && printf \'caf\\303\\251 \\351\\n\\n\' >> "$2"\n')
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", f"'{script}' --wait")
    assert edit_text("draft 🐺 ") == "draft 🐺 café \ufffd\n"
    assert list(own_temporary_folder.iterdir()) == [script]


def test_visual_comes_before_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", "true")
    assert edit_text("same") == "same"


@pytest.mark.parametrize(
    ("editor", "why"),
    [("", "no editor is set"), ("/no/such", "cannot start"), ("'", "cannot start"), ("false", "code 1")],
)
def test_a_missing_or_failing_editor_is_said(
    own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, editor: str, why: str
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(UsageError, match=why):
        edit_text("draft")
    assert list(own_temporary_folder.iterdir()) == []
