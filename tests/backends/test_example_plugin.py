"""The package of docs/plugins.md: built and installed by pip, found by its entry point, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "qchat-echo"
QUESTION = "Say this, word by word."


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example and with a plugin that breaks when it is imported."""
    folder, source = tmp_path_factory.mktemp("plugins"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "qchat_echo.py"):  # pip writes beside what it builds
        (source / name).write_text((EXAMPLE / name).read_text(encoding="utf-8"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "--target", str(folder), str(source)], check=True)
    broken = folder / "qchat_broken-0.1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: qchat-broken\nVersion: 0.1\n")
    (broken / "entry_points.txt").write_text("[qchat.backends]\nbroken = qchat_broken:open_it\n")
    (folder / "qchat_broken.py").write_text("raise RuntimeError('it was written for another world')\n")
    return folder


def qchat(plugins: Path, home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[servers.backwards]\nkind = "echo"\nbody = { reverse = true }\n')
    env = {name: value for name, value in os.environ.items() if not name.startswith("QCHAT_")}
    env |= {"QCHAT_HOME": str(home), "PYTHONPATH": os.pathsep.join([str(plugins), str(ROOT)])}
    command = [sys.executable, "-m", "app", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_it_answers(plugins: Path, tmp_path: Path) -> None:
    done = qchat(plugins, tmp_path, "ask", "--backend", "echo", "--json", QUESTION)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["answer"], document["model"], document["backend"]) == (QUESTION, "echo", "echo")
    assert (document["finish_reason"], document["usage"]["generated_tokens"]) == ("stop", 5)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("args", "answer", "code"),
    [
        (["--backend", "echo", "-m", "shout"], "SAY THIS, WORD BY WORD.\n", 0),
        (["--backend", "echo", "--max-tokens", "2"], "Say this,\n", 0),
        (["-m", "backwards/echo"], ".drow yb drow ,siht yaS\n", 0),
        (["--backend", "echo", "-m", "whisper"], "", 1),
    ],
)
def test_models_limits_and_a_table_of_its_own(
    plugins: Path, tmp_path: Path, args: list[str], answer: str, code: int
) -> None:
    done = qchat(plugins, tmp_path, "ask", *args, QUESTION)
    assert (done.stdout, done.returncode) == (answer, code), done.stderr


def test_a_broken_plugin_is_named_and_stops_nothing(plugins: Path, tmp_path: Path) -> None:
    done = qchat(plugins, tmp_path, "ask", "--backend", "broken", QUESTION)
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.splitlines() == [
        "qchat: the backend broken cannot be loaded: RuntimeError: it was written for another world",
        "  it comes from qchat_broken:open_it of qchat-broken 0.1",
    ]
    done = qchat(plugins, tmp_path, "backends", "--json")
    assert done.returncode == 0, done.stderr
    looks = {look["name"]: look for look in json.loads(done.stdout)}
    assert (looks["broken"]["state"], looks["broken"]["usable"]) == ("broken", False)
    assert "written for another world" in looks["broken"]["problem"]
    assert (looks["echo"]["state"], looks["echo"]["at"]) == ("installed", "qchat-echo 1.0")
    assert (looks["backwards"]["state"], looks["backwards"]["models"]) == ("reachable", ["echo", "shout"])
    assert looks["local"]["state"] == "ready"
    done = qchat(plugins, tmp_path, "backends", "broken")
    assert done.returncode == 3 and done.stdout.splitlines()[1].endswith(" broken")


def test_nothing_of_a_plugin_is_imported_that_was_not_asked_for(plugins: Path, tmp_path: Path) -> None:
    done = qchat(plugins, tmp_path, "ask", "--backend", "ehco", QUESTION)
    assert done.returncode == 2 and "did you mean echo?" in done.stderr  # and `broken` was not touched
