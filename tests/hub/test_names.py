"""Report D08: no name from a repository, a URL or a person leads out of the models folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import UsageError
from app.hub.library import Library
from app.hub.names import check_file_name
from app.hub.source import parse_source

BAD_NAMES = [
    "../../evil.gguf",
    "/abs/x.gguf",
    "C:\\x.gguf",
    "a\\..\\..\\x.gguf",
    "\\\\host\\s\\x.gguf",
    "sub/../ok.gguf",
    "two\nlines\x1b[2J.gguf",
    "bidi\u202egguf.exe.gguf",
    "x" * 300 + ".gguf",
    "\u6f22" * 100 + ".gguf",
    ".gguf",
    ".hidden.gguf",
    "CON.gguf",
    "con.tar.gguf",
    "lpt9.gguf",
    "",
    " x.gguf",
    "-x.gguf",
    "x.gguf.",
    "x.bin",
    "\ud800.gguf",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_and_shown_escaped(name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_file_name(name)
    assert "refused" in refusal.value.message
    assert refusal.value.message.isprintable()


@pytest.mark.parametrize("name", ["Qwen3-0.6B-Q8_0.gguf", "a b.GGUF", "\u6a21\u578b.gguf", "console.gguf", "x..y.gguf"])
def test_a_good_name_is_unchanged(name: str) -> None:
    assert check_file_name(name) == name


@pytest.mark.usefixtures("qchat_home")
@pytest.mark.parametrize("name", [n for n in BAD_NAMES if "/" not in n] + ["..", "../x.gguf", "a//b.gguf"])
def test_every_remote_source_applies_the_rule(name: str) -> None:
    for source in (f"hf:org/repo/{name}", f"pypi:dist/{name}"):
        with pytest.raises(UsageError):
            parse_source(source)


@pytest.mark.usefixtures("qchat_home")
@pytest.mark.parametrize(
    "tail", ["%2e%2e%2fevil.gguf", "..%5cx.gguf", "CON.gguf", "x%0a.gguf", "x%1b.gguf", "", "dir/"]
)
def test_an_encoded_name_in_a_url_is_decoded_before_it_is_judged(tail: str) -> None:
    with pytest.raises(UsageError):
        parse_source(f"https://host/{tail}")


def test_the_name_given_to_remove_is_never_a_path(tmp_path: Path, qchat_home: Path) -> None:
    outside = tmp_path / "evil.gguf"
    outside.write_bytes(b"x")
    library = Library(tmp_path / "models")
    library.prepare()
    for name in ("../evil", "../evil.gguf", str(outside), "..", "."):
        with pytest.raises(Exception, match="no model"):
            library.remove(name)
    assert outside.exists()
