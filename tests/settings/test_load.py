"""Where a setting's value comes from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.errors import SettingsError
from app.settings import RULES, load_settings, shipped_config_dir
from tests.settings.config_file import write_config

pytestmark = pytest.mark.usefixtures("qchat_home")


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


def test_qchat_config_names_another_file_which_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config("ctx = 100")
    other = tmp_path / "other.toml"
    monkeypatch.setenv("QCHAT_CONFIG", str(other))
    with pytest.raises(SettingsError, match=r"cannot read .*No such file"):
        load_settings()
    other.write_text("threads = 2")
    assert (load_settings().ctx, load_settings().threads) == (0, 2)
