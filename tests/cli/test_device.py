"""--device: what is missing for CUDA is said in one line, and `auto` runs on the CPU without a word but in --stats."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from app.cli import run
from app.engine.cuda import find
from app.errors import CudaUnavailableError
from tests.conftest import DATA

MODEL = str(DATA / "tiny-qwen3-2l-q8_0.gguf")
ASK = ["ask", "-m", MODEL, "--temp", "0", "--max-tokens", "3", "--no-think", "--no-stdin"]


class Driver:
    """As libcuda: what its two functions return, and how many GPUs there are."""

    def __init__(self, result: int = 0, count: int = 1) -> None:
        self._result, self._count = result, count

    def cuInit(self, flags: int) -> int:  # noqa: N802  # the driver's name
        return self._result

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self._count
        return self._result


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[Driver | None], None]:
    """Put a driver in the place of this machine's; None for a machine without one."""
    real = ctypes.CDLL

    def use(given: Driver | None) -> None:
        def load(name: Any, *more: Any) -> Any:
            if name != "libcuda.so.1":
                return real(name, *more)
            if given is None:
                raise OSError
            return given

        monkeypatch.setattr(ctypes, "CDLL", load)

    return use


@pytest.mark.usefixtures("qchat_home")
def test_cuda_without_a_driver_is_one_line_and_exit_code_1(driver: Any, capfd: pytest.CaptureFixture[str]) -> None:
    driver(None)
    assert run([*ASK, "--device", "cuda", "hi"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "this machine has no driver" in err and "pip install 'qchat[cuda13]'" in err


@pytest.mark.usefixtures("home_with_kernels")
def test_auto_answers_on_the_cpu_and_only_stats_says_why(driver: Any, capfd: pytest.CaptureFixture[str]) -> None:
    driver(None)
    assert run([*ASK, "hi"]) == 0
    assert "CUDA" not in capfd.readouterr().err
    assert run([*ASK, "--stats", "hi"]) == 0
    err = capfd.readouterr().err
    assert "device          cpu" in err
    assert "on the CPU: CUDA needs an NVIDIA GPU and its driver" in err
    assert run([*ASK, "--stats", "--device", "cpu", "hi"]) == 0
    assert "on the CPU" not in capfd.readouterr().err


@pytest.mark.parametrize("found", [Driver(result=100), Driver(count=0)], ids=["does not start", "no GPU"])
def test_a_driver_without_a_gpu(found: Driver, driver: Any) -> None:
    driver(found)
    with pytest.raises(CudaUnavailableError, match="finds no GPU"):
        find.open_gpu()


def test_a_gpu_without_cupy(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(Driver())
    monkeypatch.setattr(find.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CudaUnavailableError, match="CuPy, which is not installed: pip install"):
        find.open_gpu()
