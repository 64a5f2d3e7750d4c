"""`qchat models`: the list, the facts, pulling and removing, for people and for scripts."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import run
from app.cli.progress import ProgressLine, duration, human_bytes, progress_text, transfer_text
from app.engine.cpu.packed_cache import PackedCache
from app.hub import Library
from app.hub.download.identity import Identity
from app.hub.download.state import State, save
from app.hub.transfer import Transfer
from app.settings import paths
from tests.hub.files import some_tensors, write_gguf

pytestmark = pytest.mark.usefixtures("qchat_home")


@pytest.fixture
def library() -> Library:
    library = Library(paths().models_dir)
    library.prepare()
    return library


@pytest.fixture
def smollm2_file(smollm2_path: Path, tmp_path: Path) -> Path:
    """The starter under the name that its publisher gave it."""
    file = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.symlink_to(smollm2_path)
    return file


def document(args: list[str], capsys: pytest.CaptureFixture[str]) -> object:
    assert run(args) == 0
    return json.loads(capsys.readouterr().out)


def test_an_empty_list_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and "list --all" in shown.err
    assert document(["models", "list", "--json"], capsys) == []


def test_the_list_shows_what_runs_and_why_the_rest_does_not(
    library: Library, smollm2_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", "pull", str(smollm2_file)]) == 0
    write_gguf(library.models_dir / "odd.gguf", some_tensors())
    (library.models_dir / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0")
    capsys.readouterr()
    assert run(["models", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "98.4 MB" in lines["smollm2:135m"] and "Q4_1" in lines["smollm2:135m"] and "8,192" in lines["smollm2:135m"]
    assert "cannot run" in lines["odd"] and "cannot run" in lines["cut"]
    rows = {row["name"]: row for row in document(["models", "list", "--json"], capsys)}  # type: ignore[attr-defined]
    assert rows["smollm2:135m"]["linked_to"] == str(smollm2_file) and rows["smollm2:135m"]["runnable"] is True
    assert rows["odd"]["runnable"] is rows["cut"]["runnable"] is False


def test_the_catalogue_is_listed_with_sizes_and_licences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list", "--all"]) == 0
    text = capsys.readouterr().out
    assert "qwen3:4b" in text and "~2.5 GB" in text and "Qwen Research License" in text


def test_show_is_the_same_for_people_and_scripts(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = document(["models", "show", str(smollm2_path), "--json"], capsys)
    assert facts["path"] == str(smollm2_path)  # type: ignore[index]
    assert run(["models", "show", str(smollm2_path)]) == 0
    text = capsys.readouterr().out
    for part in ("llama", "210 Q4_1", "8,192 tokens", "a token (f16)", "smollm", "<|im_end|> (2)", str(smollm2_path)):
        assert part in text


def test_show_counts_the_cache_in_the_format_that_is_set(
    smollm2_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCHAT_KV", "f32")
    facts = document(["models", "show", str(smollm2_path), "--json"], capsys)
    assert facts["memory"]["kv"] == "f32"  # type: ignore[index]


def test_text_from_a_file_reaches_the_terminal_escaped(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    write_gguf(library.models_dir / "odd.gguf", some_tensors())
    for args in (["models", "show", "odd"], ["models", "show", "odd", "--json"], ["models", "list"]):
        assert run(args) == 0
        assert "\x1b" not in capsys.readouterr().out
    assert run(["models", "show", "odd"]) == 0
    assert "small \\x1b[2J file" in capsys.readouterr().out


def test_pull_and_remove_say_what_they_did(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_gguf(tmp_path / "mine.gguf", some_tensors())
    entry = document(["models", "pull", str(file), "--json"], capsys)
    assert entry == {
        "name": "mine",
        "origin": "qchat",
        "store": "qchat",
        "path": str(library.models_dir / "mine.gguf"),
        "files": [str(library.models_dir / "mine.gguf")],
        "bytes": file.stat().st_size,
        "linked_to": str(file),
    }
    assert run(["models", "remove", "mine"]) == 0
    assert "the file stays" in capsys.readouterr().out
    assert file.exists() and library.list() == []


@pytest.mark.parametrize("args", [["show", "none"], ["remove", "none"]])
def test_an_unknown_model_is_exit_1_and_a_bad_source_exit_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", *args]) == 1
    assert run(["models", "pull", "none"]) == 2
    assert run(["models", "pull", "../evil\x1b[2J.gguf"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "\x1b" not in shown.err


# -- progress ---------------------------------------------------------------------------------------------------------


def test_away_from_a_terminal_progress_is_a_few_plain_lines() -> None:
    out = io.StringIO()
    with ProgressLine(out) as progress:
        for done in range(0, 1001):
            progress("downloading", done * 1000, 1_000_000)
        progress("joining", 5, None)
        progress.say("a \x1b[2J notice")
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["downloading (1.0 MB)", "downloading: 10 %", "downloading: 20 %"]
    assert lines[-2:] == ["joining", "a \\x1b[2J notice"]
    assert len(lines) == 13
    assert not set(out.getvalue()) & {"\x1b", "\r", "\b"}


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """What a progress line writes to a real pseudo-terminal."""
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    leader, follower = pty.openpty()
    code = (
        "import sys; from app.cli.progress import ProgressLine\n"
        "with ProgressLine() as p: p('downloading', 0, 100); p('downloading', 100, 100)\n"
        "print('end', file=sys.stderr)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=follower)
    os.close(follower)
    assert process.wait(20) == 0
    written = os.read(leader, 65536).decode()
    os.close(leader)
    return written


def test_on_a_terminal_one_line_redraws_and_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    written = on_a_terminal(monkeypatch)
    assert "\r\x1b[K" in written and "100 %" in written
    assert written.endswith("\r\x1b[Kend\r\n")
    assert "\x1b[3" not in written  # no colour, with or without NO_COLOR


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in on_a_terminal(monkeypatch, TERM="dumb")


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
@pytest.mark.parametrize("total", [None, 123_456_789])
def test_a_progress_line_fits_its_terminal(width: int, total: int | None) -> None:
    for done in (0, 1, 99_999_999, 123_456_789):
        assert len(progress_text("downloading with pip", done, total, width)) <= width


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (23_040, "23 kB"), (98_362_432, "98.4 MB"), (5e9, "5.0 GB")]
)
def test_sizes_are_in_powers_of_a_thousand(count: float, text: str) -> None:
    assert human_bytes(count) == text


def keep_weights(model: Path) -> None:
    cache = PackedCache([model], [], 16, 4096, 1 << 20, print)
    draft = cache.draft()
    assert draft is not None
    draft.finish()


def test_packed_weights_are_shown_and_removed(
    tmp_path: Path, smollm2_file: Path, library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    assert run(["models", "pull", str(smollm2_file)]) == 0
    (entry,) = library.list()
    keep_weights(entry.path)
    keep_weights(other)
    capsys.readouterr()
    assert run(["models", "cache"]) == 0
    shown = capsys.readouterr()
    assert str(other) in shown.out and str(smollm2_file.resolve()) in shown.out
    assert "of 20 GB" in shown.err
    assert run(["models", "remove", entry.name]) == 0
    capsys.readouterr()
    facts = document(["models", "cache", "--json"], capsys)
    assert isinstance(facts, dict)
    assert [row["model"] for row in facts["files"]] == [str(other)]
    assert run(["models", "cache", "--clear"]) == 0
    assert "of 1 models" in capsys.readouterr().out
    assert run(["models", "cache"]) == 0
    assert "no packed weights" in capsys.readouterr().err


# -- downloads that are not complete ----------------------------------------------------------------------------------


def test_unfinished_downloads_are_listed_and_removed(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "parts"]) == 0
    assert "no download is unfinished" in capsys.readouterr().err
    for name in ("x", "y"):
        state = State(f"{name}.gguf", f"hf:o/r/{name}.gguf", "", Identity(9_000, etag="v"), 9_000, ((0, 5_000),))
        (library.incoming_dir / f"{name}.gguf.part").write_bytes(bytes(5_000))
        save(library.incoming_dir / f"{name}.gguf.part", state)
    assert run(["models", "parts"]) == 0
    shown = capsys.readouterr()
    assert "5 kB of 9 kB" in shown.out and "qchat models pull hf:o/r/x.gguf" in shown.out
    assert "'qchat models parts --clear'" in shown.err
    facts = document(["models", "parts", "x", "--json"], capsys)
    assert isinstance(facts, dict)
    assert [(part["name"], part["done"], part["total"]) for part in facts["parts"]] == [("x.gguf", 5_000, 9_000)]
    assert run(["models", "parts", "x", "--clear"]) == 0
    assert "removed 1 unfinished" in capsys.readouterr().out
    assert run(["models", "parts", "x"]) == 1
    assert run(["models", "parts", "--clear"]) == 0
    assert list(library.incoming_dir.iterdir()) == []


def test_an_interrupted_pull_says_what_is_kept(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        state = State("x.gguf", "hf:o/r/x.gguf", "", Identity(9_000, etag="v"), 9_000, ((0, 5_000),))
        (library.incoming_dir / "x.gguf.part").write_bytes(bytes(5_000))
        save(library.incoming_dir / "x.gguf.part", state)
        raise KeyboardInterrupt

    monkeypatch.setattr("app.hub.download.handle.steered_pull", interrupted)
    assert run(["models", "pull", "hf:o/r/x.gguf"]) == 130
    assert "5 kB of 9 kB of x.gguf are kept; the same command goes on" in capsys.readouterr().err


def test_a_download_shows_bytes_speed_and_time_left() -> None:
    transfer = Transfer("downloading", 250_000_000, 1_000_000_000, 25e6, 30.0, "part 1 of 2")
    line = transfer_text(transfer, 120)
    assert line.startswith("downloading [=====") and " 25 %  250.0 MB of 1.0 GB  25.0 MB/s  30 s left  part 1" in line
    assert "part 1" not in transfer_text(transfer, 70) and "30 s left" in transfer_text(transfer, 70)
    retrying = Transfer("retrying", 1, 2, note="the server \x1b[2J answered 503; next try in 4 s")
    assert transfer_text(retrying, 100) == "retrying: the server \\x1b[2J answered 503; next try in 4 s"


def test_away_from_a_terminal_a_wait_is_told_once_and_not_every_tenth_of_a_second() -> None:
    out = io.StringIO()
    with ProgressLine(out) as progress:
        for left_s in (3, 2, 1):
            progress.show(Transfer("retrying", 500, 1000, note=f"\x1b503; next try in {left_s} s"))
        progress.show(Transfer("downloading", 500, 1000))
        progress.show(Transfer("retrying", 500, 1000, note="again"))
    assert out.getvalue().splitlines() == [
        "retrying: \\x1b503; next try in 3 s",
        "downloading (1 kB)",
        "downloading: 50 %",
        "retrying: again",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(42, "42 s"), (59.6, "1 min 00 s"), (65, "1 min 05 s"), (599, "9 min 59 s"), (600, "10 min"), (4000, "1 h 6 min")],
)
def test_how_long_it_takes(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("width", [5, 10, 20, 40, 60, 80, 200])
@pytest.mark.parametrize("total", [None, 123_456_789])
def test_a_line_about_a_download_fits_its_terminal(width: int, total: int | None) -> None:
    for stage in ("downloading", "retrying", "waiting"):
        transfer = Transfer(stage, 99_999_999, total, 123e6, 4000.0, "a long note " * 9)
        assert len(transfer_text(transfer, width)) <= width


def test_away_from_a_terminal_a_download_is_a_few_plain_lines() -> None:
    out = io.StringIO()
    with ProgressLine(out) as progress:
        for part in (1, 2):
            for done in range(500_000 * (part - 1), 500_000 * part + 1, 10_000):
                progress.show(Transfer("downloading", done, 1_000_000, 1e5, 5.0, f"part {part} of 2"))
                progress.show(Transfer("retrying", done, 1_000_000, note="503, next try in 2 s"))
    lines = out.getvalue().splitlines()
    assert lines[0] == "downloading, part 1 of 2 (1.0 MB)"
    assert [line for line in lines if ": " not in line] == [
        f"downloading, part {part} of 2 (1.0 MB)" for part in (1, 2)
    ]
    assert "downloading, part 2 of 2: 100 %, 5 s left" in lines
    assert "retrying: 503, next try in 2 s" in lines
