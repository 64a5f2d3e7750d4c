"""--device: what is missing for CUDA is said in one line, and `auto` runs on the CPU without a word but in --stats."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.cli import run
from app.engine import model
from app.engine.cuda import find
from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.memory import need_of
from app.engine.cuda.program import largest_chunk
from app.engine.cuda.weights import plan_weights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from app.errors import CudaUnavailableError
from tests.conftest import DATA
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice

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
@pytest.mark.parametrize("has_cupy", [True, False])
def test_cuda_without_a_driver_is_one_line_and_exit_code_1(
    has_cupy: bool, driver: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(None)
    monkeypatch.setattr(find.importlib.util, "find_spec", lambda name: object() if has_cupy else None)
    assert run([*ASK, "--device", "cuda", "hi"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "this machine has no driver: nvidia.com/drivers" in err
    assert ("then pip install 'qchat[cuda13]'" in err) is not has_cupy


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


class SmallGpu(EmulatedDevice):
    """A GPU with room for the model and so many tokens of context."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        with read_gguf(Path(MODEL)) as gguf:
            spec = ModelSpec.from_gguf(gguf)
            need = need_of(gguf, spec, plan_weights(gguf, spec), "f16", largest_chunk(spec.context_length))
        self._free = need.bytes_for(tokens)

    def free_bytes(self) -> int:
        return self._free


@pytest.fixture
def small_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "open_gpu", lambda: SmallGpu(1024))
    monkeypatch.setattr(find, "open_gpu", lambda: SmallGpu(1024))
    monkeypatch.setattr(model, "CudaDecoder", partial(CudaDecoder, warps=WARPS))


@pytest.mark.usefixtures("home_with_kernels", "small_gpu")
def test_a_context_that_does_not_fit_is_two_lines_with_every_way_out(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*ASK, "--device", "cuda", "--ctx", "2048", "hi"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    what, hint = err.splitlines()
    assert re.fullmatch(
        r"qchat: emulator has 0\.\d GB free, and 0\.\d GB are needed for a context of 2,048 tokens", what
    )
    assert re.fullmatch(r" *--ctx 1024 or --kv q8_0 --ctx \d+ fits; --device cpu needs none of it", hint)


@pytest.mark.usefixtures("home_with_kernels", "small_gpu")
def test_a_context_that_nobody_asked_for_shrinks_for_cuda_and_goes_to_the_cpu_for_auto(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run([*ASK, "--device", "cuda", "--stats", "hi"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"^device +emulator", err, re.MULTILINE)
    assert "context of 1,024 tokens in place of 2,048: more does not fit into the GPU's memory" in err
    assert run([*ASK, "--device", "auto", "--stats", "hi"]) == 0
    err = capfd.readouterr().err
    assert re.search(r"^device +cpu$", err, re.MULTILINE)
    assert "on the CPU: emulator has 0." in err and "are needed for a context of 2,048 tokens" in err


@pytest.mark.usefixtures("home_with_kernels", "small_gpu")
def test_memory_that_somebody_takes_meanwhile_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def taken(self: SmallGpu, n_bytes: int) -> None:
        raise MemoryError(f"no {n_bytes:,} bytes of GPU memory")

    monkeypatch.setattr(SmallGpu, "allocate", taken)
    assert run([*ASK, "--device", "cuda", "hi"]) == 1
    err = capfd.readouterr().err
    assert "emulator ran out of memory while the model was loaded: no " in err
    assert "nvidia-smi shows what else takes it; --device cpu needs none of it" in err
