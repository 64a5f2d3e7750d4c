"""What happens to a name or value that is not allowed, in the config file and in the environment."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import SettingsError
from app.settings import load_settings, variable
from tests.settings.config_file import write_config

pytestmark = pytest.mark.usefixtures("qchat_home")


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
