"""Where a setting's value comes from, and what happens to a name or value that is not allowed."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.errors import SettingsError
from app.settings import RULES, load_settings, paths, private_dir, shipped_config_dir, variable
from tests.home import qchat_home

__all__ = ["qchat_home"]

pytestmark = pytest.mark.usefixtures("qchat_home")


def write_config(text: str) -> Path:
    file = paths().config_file
    private_dir(file.parent)
    file.write_text(text, encoding="utf-8")
    return file


def test_every_setting_has_a_default_and_a_comment() -> None:
    text = (shipped_config_dir() / "defaults.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    sampling = tables.pop("sampling")
    assert tables.pop("keys") == tables.pop("folders") == {}
    assert set(tables) | {f"sampling.{key}" for key in sampling} == set(RULES)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if "=" in line and not line.startswith("#"):
            assert lines[number - 1].startswith("#"), f"{line} has no comment"


def test_the_defaults_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCHAT_OTHER_STORES")
    settings = load_settings()
    assert (settings.model, settings.backend, settings.max_tokens) == ("smollm2:135m", "local", 4096)
    assert (settings.ctx, settings.kv, settings.threads, settings.device) == (0, "f16", 0, "auto")
    assert settings.thinking is None and settings.lm_head is None and settings.show_thinking is False
    assert set(vars(settings.sampling).values()) == {None}
    assert settings.other_stores and settings.folders == {}
    assert set(settings.sources.values()) == {"default"}


def test_keys_are_any_names_with_text_and_come_from_the_file_alone() -> None:
    file = write_config('[keys]\nnew_chat = "f5"\nstop = ""\n')
    settings = load_settings()
    assert settings.keys == {"new_chat": "f5", "stop": ""}
    assert settings.sources["keys.new_chat"] == str(file)
    assert ("keys.new_chat", "f5") in settings.items()
    write_config("[keys]\nnew_chat = 5\n")
    with pytest.raises(SettingsError, match=r"keys\.new_chat = 5 is not allowed"):
        load_settings()


def test_a_flag_beats_the_environment_beats_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_config('ctx = 100\nthreads = 3\nkv = "f32"\n[sampling]\ntop_k = 5\n')
    monkeypatch.setenv("QCHAT_CTX", "200")
    monkeypatch.setenv("QCHAT_SAMPLING_TOP_K", "6")
    monkeypatch.setenv("QCHAT_THREADS", "")
    settings = load_settings({"ctx": 300, "device": None})
    assert (settings.ctx, settings.sampling.top_k, settings.kv, settings.threads) == (300, 6, "f32", 3)
    assert settings.sources["ctx"] == "command line"
    assert settings.sources["sampling.top_k"] == "QCHAT_SAMPLING_TOP_K"
    assert settings.sources["kv"] == settings.sources["threads"] == str(file)
    assert settings.sources["device"] == "default"


def test_a_later_layer_can_return_a_value_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    write_config('thinking = "on"\n[sampling]\ntemperature = 0.5\n')
    assert load_settings().thinking is True and load_settings().sampling.temperature == 0.5
    monkeypatch.setenv("QCHAT_THINKING", "model")
    settings = load_settings({"sampling.temperature": "model"})
    assert settings.thinking is None and settings.sampling.temperature is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("modle = 'x'", "modle"),
        ("ctx = '100'", "whole number"),
        ("ctx = 1.5", "whole number"),
        ("threads = true", "whole number"),
        ("ctx = 3", "from 16"),
        ("show_thinking = 1", "true or false"),
        ("kv = 'f15'", "f16, f32, q8_0"),
        ("model = 3", "text"),
        ("max_tokens = 0", "-1, or a whole number"),
        ("[sampling]\ntop_p = 1.5", "from 0 to 1"),
        ("[sampling]\ntop_p = nan", "from 0 to 1"),
        ("[sampling]\ntemperature = inf", "from 0 to 100"),
        ("[sampling]\ntop = 1", "sampling.top"),
        ("[smapling]\ntop_k = 1", "smapling.top_k"),
        ("ctx = {a = 1}", "ctx.a"),
        ("ctx =", "not valid TOML"),
        ("\x1b[2J", "not valid TOML"),
    ],
)
def test_a_bad_line_names_file_key_and_what_is_allowed(line: str, said: str) -> None:
    file = write_config(line)
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    text = f"{refusal.value.message} {refusal.value.hint}"
    assert str(file)[:20] in text and said in text
    assert text.isprintable()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("QCHAT_CTX", "x", "allowed: 0, or a whole number"),
        ("QCHAT_CTX", "1e3", "whole number"),
        ("QCHAT_SHOW_THINKING", "maybe", "true or false"),
        ("QCHAT_SAMPLING_TOP_P", "nan", "from 0 to 1"),
        ("QCHAT_KV", "\x1b[2J", "f16"),
        ("QCHAT_MODEEL", "x", "did you mean QCHAT_MODEL"),
        ("QCHAT_TOP_P", "1", "not a setting"),
    ],
)
def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    text = f"{refusal.value.message} {refusal.value.hint}"
    assert name in text and said in text and text.isprintable()
    assert refusal.value.exit_code == 2


def test_variables_that_are_no_settings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QCHAT_DEBUG", "QCHAT_ISA", "QCHAT_TRACE"):
        monkeypatch.setenv(name, "1")
    load_settings()


@pytest.mark.parametrize(("key", "text", "value"), [("show_thinking", "1", True), ("sampling.seed", "7", 7)])
def test_a_variable_is_read_as_the_settings_type(
    monkeypatch: pytest.MonkeyPatch, key: str, text: str, value: Any
) -> None:
    monkeypatch.setenv(variable(key), text)
    assert dict(load_settings().items())[key] == value


def test_qchat_home_moves_everything(qchat_home: Path) -> None:
    found = paths()
    for folder in (found.config_file, found.data_dir, found.models_dir, found.cache_dir, found.log_dir):
        assert qchat_home in folder.parents


def test_qchat_config_names_another_file_which_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config("ctx = 100")
    other = tmp_path / "other.toml"
    monkeypatch.setenv("QCHAT_CONFIG", str(other))
    with pytest.raises(SettingsError, match=r"cannot read .*No such file"):
        load_settings()
    other.write_text("threads = 2")
    assert (load_settings().ctx, load_settings().threads) == (0, 2)


def test_without_qchat_home_the_platform_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCHAT_HOME")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    found = paths()
    assert tmp_path in found.config_file.parents and tmp_path in found.models_dir.parents
    assert found.config_file.name == "config.toml"


def test_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    made = private_dir(tmp_path / "a" / "b")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (made, made.parent)] == [0o700, 0o700]
    private_dir(made)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot make the folder"):
        private_dir(tmp_path / "file" / "below")
