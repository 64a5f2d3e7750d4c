"""Opening an Ollama server: which model, and what is told where it has none of that name."""

from __future__ import annotations

import asyncio
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from app.backends.ollama.api import api_url
from app.backends.ollama.backend import open_ollama
from app.backends.probe import models_at
from app.backends.registry import GROUP
from app.backends.servers import server_of
from app.errors import BackendError, ModelNotFoundError, UsageError
from tests.backends.ollama.asking import ask, opened, settings_for
from tests.backends.ollama.server import FakeOllama, Model, serving
from tests.home import qchat_home

__all__ = ["qchat_home"]

pytestmark = pytest.mark.usefixtures("qchat_home")
TWO = [Model("qwen3:8b"), Model("llama3.2:latest")]


def test_it_is_installed_under_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    declared = EntryPoint("ollama", project["entry-points"][GROUP]["ollama"], GROUP)
    assert declared.load() is open_ollama


def test_a_named_model_is_described() -> None:
    with serving(FakeOllama()) as fake:
        backend = opened(fake, ctx=8192)
        assert (backend.name, backend.model) == ("work", "qwen3:8b")
        assert backend.facts == {"server": fake.url, "ctx": 8192, "trained for": 40_960, "weights": "Q4_K_M"}
        assert fake.requests == [("/api/show", {"model": "qwen3:8b"})]


def test_the_only_model_is_taken_and_of_several_none() -> None:
    with serving(FakeOllama()) as fake:
        assert opened(fake, model="").model == "qwen3:8b"
    with serving(FakeOllama(models=TWO)) as fake:
        with pytest.raises(UsageError, match="work has 2 models") as caught:
            opened(fake, model="")
        assert "-m work/MODEL: qwen3:8b, llama3.2:latest" in str(caught.value.hint)
    with serving(FakeOllama(models=[])) as fake, pytest.raises(ModelNotFoundError, match="no model yet"):
        opened(fake, model="")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3", "did you mean qwen3:8b?"),
        ("zzz", "it has: qwen3:8b, llama3.2:latest"),
        ("\x1b[2J", "'ollama pull \\x1b[2J'"),
    ],
)
def test_a_model_that_is_not_there_is_told_with_those_that_are(name: str, said: str) -> None:
    with (
        serving(FakeOllama(models=TWO)) as fake,
        pytest.raises(ModelNotFoundError, match="work has no model") as caught,
    ):
        opened(fake, model=name)
    assert said in str(caught.value.hint) and f"{caught.value.message}{caught.value.hint}".isprintable()


def test_a_model_that_goes_away_is_an_error_of_its_own() -> None:
    with serving(FakeOllama()) as fake:
        fake.refuse = (404, b'{"error": "model \'qwen3:8b\' not found"}')
        asked = ask(fake)
    assert isinstance(asked.error, BackendError) and "model 'qwen3:8b' not found" in asked.error.message


def test_the_models_are_listed() -> None:
    with serving(FakeOllama(models=TWO)) as fake:
        assert asyncio.run(models_at(server_of(settings_for(fake)))) == ["qwen3:8b", "llama3.2:latest"]


def test_a_server_of_another_kind_is_told_apart() -> None:
    with serving(FakeOllama()) as fake:
        fake.url += "/elsewhere"
        with pytest.raises(BackendError, match=r"404 Not Found for http://127.0.0.1:\d+/elsewhere/api/show"):
            opened(fake)


def test_nobody_there() -> None:
    fake = FakeOllama(url="http://127.0.0.1:9")
    with pytest.raises(BackendError, match=r"work cannot be reached at http://127.0.0.1:9"):
        opened(fake)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("localhost:11434", "http://localhost:11434"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/api", "http://h:1"),
        ("http://h:1/api/chat", "http://h:1"),
        ("http://h:1/v1", "http://h:1"),
        ("https://h/ollama/", "https://h/ollama"),
        ("http://[::1]:1", "http://[::1]:1"),
    ],
)
def test_an_address_is_taken_as_people_write_it(written: str, asked: str) -> None:
    """R06."""
    assert api_url(written).request("/api/tags") == f"{asked}/api/tags"
