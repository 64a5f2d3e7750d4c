"""The `[servers.NAME]` tables: what they may hold, which server a setting means, and that no secret gets out."""

from __future__ import annotations

import os
import pickle

import pytest

from app.errors import SettingsError
from app.settings import HIDDEN, Secret, ServerTable, key_variable, load_settings
from tests.settings.config_file import write_config

pytestmark = pytest.mark.usefixtures("qchat_home")

KEY = "sk-4f9a-secret"
TWO_SERVERS = """
[servers.work]
url = "http://work:8000"
model = "qwen3-32b"
[servers.openai]
url = "https://api.openai.com/v1"
"""


def test_a_table_is_read_whole() -> None:
    file = write_config(
        f"""
        [servers.work]
        kind = "ollama"
        url = " http://work:11434 "
        model = "qwen3"
        key = "{KEY}"
        key_env = "WORK_KEY"
        connect_timeout = 1
        first_token_timeout = 2.5
        idle_timeout = 3
        headers = {{ "X-Team" = "blue" }}
        body = {{ keep_alive = "10m", options = {{ top_k = 1 }} }}
        """
    )
    assert load_settings().servers["work"] == ServerTable(
        name="work",
        kind="ollama",
        url="http://work:11434",
        model="qwen3",
        key=Secret(KEY),
        key_env="WORK_KEY",
        connect_timeout=1.0,
        first_token_timeout=2.5,
        idle_timeout=3.0,
        headers={"X-Team": Secret("blue")},
        body={"keep_alive": "10m", "options": {"top_k": 1}},
        file=str(file),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers = 5", "servers must hold tables"),
        ("[servers]\nwork = 5", "servers.work must be a table"),
        ("[servers.work]\nurll = 'x'", "did you mean url?"),
        ("[servers.work]\nheader = {}", "did you mean headers?"),
        ("[servers.work]\nqqq = 1", "a server has: kind, url, model"),
        ("[server.work]\nurl = 'x'", "did you mean servers.work?"),
        ("[servers.work]\nidle_timeout = 0", "servers.work.idle_timeout must be a number above 0"),
        ("[servers.work]\nidle_timeout = '3'", "it is '3'"),
        ("[servers.work]\nurl = 3", "servers.work.url must be text"),
        ("[servers.work]\nurl = ''", "must be an address"),
        ("[servers.work]\nurl = 'ftp://x'", "must be an address"),
        ("[servers.work]\nurl = 'http://x:99999'", "must be an address"),
        ("[servers.work]\nurl = 'http://[::1'", "must be an address"),
        ("[servers.work]\nurl = 'http://two words'", "must be an address"),
        ('[servers.work]\nkey_env = "a\\u0007"', "servers.work.key_env must be printable"),
        ("[servers.work]\nheaders = 5", "servers.work.headers must be a table"),
        ("[servers.work]\nbody = []", "servers.work.body must be a table"),
        ("[servers.work]\nbody = { since = 2026-01-01 }", "servers.work.body.since must be what JSON can hold"),
        ("[servers.work]\nbody = { x = nan }", "servers.work.body.x must be what JSON can hold"),
        ("[servers.local]\nurl = 'x'", "cannot be the name of a server"),
        ("[servers.login]\nurl = 'x'", "cannot be the name of a server"),
        ("[servers.'a/b']\nurl = 'x'", "cannot be the name of a server"),
        ("[servers.\"\\u001b[2J\"]\nurl = 'x'", "cannot be the name of a server"),
        ("[servers.a-b]\n[servers.A_b]", "would share QCHAT_KEY_A_B"),
    ],
)
def test_a_bad_table_names_file_key_and_what_is_allowed(text: str, said: str) -> None:
    file = write_config(text)
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    message = f"{refusal.value.message} {refusal.value.hint}"
    assert str(file) in message and said in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        f"key = ['{KEY}']",
        f"key = '{KEY}\\u0007'".replace("'", '"'),
        f"headers = {{ Authorization = ['{KEY}'] }}",
        f"headers = {{ Authorization = '{KEY} ' }}",
        f"url = 'http://me:{KEY}@work'",
        f"url = 'http://me:{KEY}/@work'",
        f"url = 'me:{KEY}/@work'",
        f"url = 'http://two words?key={KEY}'",
    ],
)
def test_a_refusal_does_not_repeat_a_secret(line: str) -> None:
    write_config(f"[servers.work]\n{line}")
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    assert "servers.work" in refusal.value.message
    assert KEY not in f"{refusal.value.message} {refusal.value.hint}"


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("line", [f"key = '{KEY}'", f"headers = {{ x = '{KEY}' }}", f"url = 'http://h?key={KEY}'"])
def test_a_file_with_a_secret_must_be_private(line: str) -> None:
    file = write_config(f"[servers.work]\n{line}", 0o640)
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    assert "others can read it" in refusal.value.message
    assert f"chmod 600 {file}" in str(refusal.value.hint)
    file.chmod(0o600)
    assert load_settings().servers["work"].secret
    write_config("[servers.work]\nurl = 'http://h'", 0o644)
    assert not load_settings().servers["work"].secret


def test_what_is_shown_of_a_table_has_no_secret() -> None:
    write_config(
        f"[servers.work]\nurl = 'h/v1?key={KEY}'\nkey = '{KEY}'\nheaders = {{ auth = '{KEY}' }}\nbody = {{ a = [1] }}"
    )
    server = load_settings().servers["work"]
    assert dict(server.items()) == {
        "kind": "openai",
        "url": f"h/v1?{HIDDEN}",
        "key": "set",
        "headers.auth": "set",
        "body.a": "[1]",
    }


def test_a_secret_is_shown_nowhere() -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]} {ServerTable('work', key=secret)}"
    assert secret.reveal() == KEY and secret == Secret(KEY) != Secret("other")
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    ("layers", "backend", "model"),
    [
        ([], "local", "smollm2:135m"),
        ([{"model": "work/Qwen/Qwen3-8B"}], "work", "Qwen/Qwen3-8B"),
        ([{"model": "work/"}], "work", "qwen3-32b"),
        ([{"model": "openai/"}], "openai", ""),
        ([{"model": "other/file.gguf"}], "local", "other/file.gguf"),
        ([{"backend": "work"}], "work", "qwen3-32b"),
        ([{"backend": "openai"}], "openai", ""),
        ([{"backend": "plugin"}], "plugin", ""),
        # What the same layer says of the backend stands: this model's name only looks like that of a server.
        ([{"backend": "work", "model": "openai/gpt-oss-20b"}], "work", "openai/gpt-oss-20b"),
        ([{"backend": "work", "model": "work/x"}], "work", "x"),
        # A chat, and over it the command line.
        ([{"backend": "work", "model": "a"}, {"model": "b"}], "work", "b"),
        ([{"backend": "work", "model": "a"}, {"model": "local/b"}], "local", "b"),
        ([{"backend": "work", "model": "a"}, {"backend": "work"}], "work", "a"),
        ([{"backend": "work", "model": "a"}, {"backend": "openai"}], "openai", ""),
        ([{"backend": "work", "model": "a"}, {"backend": "local"}], "local", "smollm2:135m"),
        ([{"backend": "work", "model": "a"}, {"model": "local/"}], "local", "smollm2:135m"),
    ],
)
def test_a_model_brings_its_server_and_a_server_its_model(
    layers: list[dict[str, str]], backend: str, model: str
) -> None:
    write_config(TWO_SERVERS)
    settings = load_settings(*layers)
    assert (settings.backend, settings.model) == (backend, model)


def test_file_and_environment_name_servers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_config('model = "work/a"\n' + TWO_SERVERS)
    settings = load_settings()
    assert (settings.backend, settings.model) == ("work", "a")
    assert settings.sources["backend"] == settings.sources["model"] == str(file)
    monkeypatch.setenv("QCHAT_BACKEND", "openai")
    settings = load_settings()
    assert (settings.backend, settings.model) == ("openai", "")
    assert settings.sources["model"] == "QCHAT_BACKEND"
    monkeypatch.setenv("QCHAT_KEY_WORK", KEY)  # no setting, and no error
    assert KEY not in repr(load_settings())


def test_a_key_has_a_variable_for_each_name() -> None:
    assert key_variable("work.gpu-1") == "QCHAT_KEY_WORK_GPU_1"
