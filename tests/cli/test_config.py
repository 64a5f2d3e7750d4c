"""`qchat config`: values with their origin, the path, and the editor."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from app.cli import run
from app.settings import RULES, load_settings, paths, read_config

pytestmark = pytest.mark.usefixtures("qchat_home")


def editor(tmp_path: Path, action: str) -> str:
    """An editor that runs `action` on the file `path`."""
    script = tmp_path / "editor.py"
    script.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n{action}\n")
    return f"'{sys.executable}' '{script}'"


def test_show_tells_value_and_origin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCHAT_CTX", "512")
    monkeypatch.setenv("QCHAT_SYSTEM", "one\ntwo \x1b[2J")
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(RULES)
    assert any(line.startswith("ctx ") and line.endswith("= 512  (QCHAT_CTX)") for line in lines)
    assert any(line.startswith("kv ") and line.endswith('= "f16"  (default)') for line in lines)
    assert any("one\\ntwo \\x1b[2J" in line for line in lines)
    assert run(["config", "show", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ctx"] == {"value": 512, "source": "QCHAT_CTX"}
    assert list(document) == list(RULES)


def test_show_tells_of_servers_and_never_a_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = paths().config_file
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    file.write_text(
        "[servers.work]\nurl = 'http://h?k=sk-4f9a'\nkey = 'sk-4f9a'\n[servers.home]\nurl = 'x'\n"
        "[servers.lab]\nheaders = { Auth = 'sk-4f9a' }\n"
    )
    monkeypatch.setenv("QCHAT_KEY_LAB", "sk-4f9a")
    assert run(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert run(["config", "show", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "sk-4f9a" not in out + json.dumps(document)
    shown = {key: value for key, value in document.items() if key.startswith("servers.")}
    assert shown == {
        "servers.work.kind": {"value": "openai", "source": str(file)},
        "servers.work.url": {"value": "http://h?(hidden)", "source": str(file)},
        "servers.work.key": {"value": "set", "source": str(file)},
        "servers.home.kind": {"value": "openai", "source": str(file)},
        "servers.home.url": {"value": "x", "source": str(file)},
        "servers.home.key": {"value": "not set", "source": "default"},
        "servers.lab.kind": {"value": "openai", "source": str(file)},
        "servers.lab.headers.Auth": {"value": "set", "source": str(file)},
        "servers.lab.key": {"value": "set", "source": "QCHAT_KEY_LAB"},
    }
    assert all(f"{key} " in out for key in shown)


def test_path_is_where_the_file_would_be(capsys: pytest.CaptureFixture[str], qchat_home: Path) -> None:
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{qchat_home / 'config.toml'}\n"


def test_edit_starts_from_commented_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", editor(tmp_path, "pass"))
    assert run(["config", "edit"]) == 0
    file = paths().config_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_config(file).values == {}
    text = file.read_text(encoding="utf-8")
    assert '# model = "smollm2:135m"' in text
    for line in ("# ctx = 0", '# temperature = "model"'):
        assert line in text
        text = text.replace(line, line.removeprefix("# "))
    file.write_text(text, encoding="utf-8")
    assert set(read_config(file).values) == {"ctx", "sampling.temperature"}


def test_edit_keeps_what_is_there_and_uses_visual_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text("ctx = 100\n")
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", editor(tmp_path, "path.write_text(path.read_text() + 'threads = 2\\n')"))
    assert run(["config", "edit"]) == 0
    assert (load_settings().ctx, load_settings().threads) == (100, 2)


def test_edit_checks_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDITOR", editor(tmp_path, "path.write_text('ctx = 3')"))
    assert run(["config", "edit"]) == 2
    assert "ctx = 3 is not allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "said"), [(None, "no editor"), ("/no/such/editor", "cannot start"), ("false", "code 1")]
)
def test_edit_without_a_working_editor_is_an_error(
    value: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if value:
        monkeypatch.setenv("EDITOR", value)
    assert run(["config", "edit"]) == 2
    assert said in capsys.readouterr().err
