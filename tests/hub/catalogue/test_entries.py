"""A person's own entries of the catalogue, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import run
from app.errors import SettingsError
from app.hub.catalogue import load_catalogue, starter
from app.hub.source import WebSource, parse_source
from app.settings import paths, private_dir

pytestmark = pytest.mark.usefixtures("qchat_home")

WHOLE = """
["mine:7b"]
source = "hf:me/models/mine-Q8_0-00001-of-00002.gguf"
licence = "MIT"
bytes = 7_000_000_000
context = 4096
cache = { layers = 30, kv_heads = 3, head_dim = 64 }
note = "my own"

[mirrored]
source = "https://example.org/some%20folder/a%20b.gguf"
"""


def write_own(text: str) -> Path:
    private_dir(paths().catalogue_file.parent)
    paths().catalogue_file.write_text(text)
    return paths().catalogue_file


def test_own_entries_come_after_those_of_qchat() -> None:
    shipped = list(load_catalogue())
    write_own(WHOLE)
    catalogue = load_catalogue()
    assert list(catalogue) == [*shipped, "mine:7b", "mirrored"]
    mine = catalogue["mine:7b"]
    assert (mine.own, mine.licence, mine.bytes, mine.note) == (True, "MIT", 7_000_000_000, "my own")
    assert not catalogue["qwen3:4b"].own


def test_an_own_entry_is_a_source_and_names_the_file_that_comes_of_it() -> None:
    write_own(WHOLE)
    for name in ("mine:7b", "mirrored"):
        assert parse_source(name).file_name == load_catalogue()[name].file_name
    assert load_catalogue()["mine:7b"].file_name == "mine-Q8_0.gguf"
    source = parse_source("mirrored")
    assert isinstance(source, WebSource) and source.urls == ("https://example.org/some%20folder/a%20b.gguf",)


def test_an_own_entry_takes_the_place_of_one_of_its_name() -> None:
    write_own('["smollm2:135m"]\nsource = "hf:me/models/tiny.gguf"\n')
    assert starter().source == "hf:me/models/tiny.gguf" and starter().own


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[mine", "not valid TOML"),
        ("mine = 3", "must be a table"),
        ("[mine]\nlicence = 'x'", "needs a source"),
        ("[mine]\nsource = 'ftp://host/x.gguf'", "needs a source"),
        ("[mine]\nsource = 'hf:a/b'", "must name a .gguf file"),
        ("[mine]\nsource = 3", "source must be text"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\nbites = 3", "has no bites"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\nbytes = -3", "bytes must be a whole number above 0"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\nparts = true", "parts must be a whole number above 0"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\ncache = {layers = 3}", "cache must hold"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\ncache = {layers = 3, kv_heads = 3, head_dim = 'x'}", "cache must hold"),
        ("[mine]\nsource = 'hf:a/b/c.gguf'\nsha256 = 'abc'", "64 digits"),
        ("['hf:x']\nsource = 'hf:a/b/c.gguf'", "begins with hf:"),
        ("['a/b']\nsource = 'hf:a/b/c.gguf'", "no name for a model"),
        ('["a\\u001b[2J"]\nsource = "hf:a/b/c.gguf"', r"[a\x1b[2J] is no name for a model"),
    ],
)
def test_a_wrong_entry_is_an_error_that_names_file_entry_and_key(
    text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_own(text)
    with pytest.raises(SettingsError) as refusal:
        load_catalogue()
    assert str(file) in refusal.value.message and reason in refusal.value.message
    assert run(["models", "list", "--all"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "\x1b" not in shown.err and "Traceback" not in shown.err


def test_what_is_written_now_is_what_counts() -> None:
    write_own(WHOLE)
    assert "mirrored" in load_catalogue()
    paths().catalogue_file.unlink()
    assert "mirrored" not in load_catalogue()
