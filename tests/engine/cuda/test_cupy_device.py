"""The adapter for a GPU with the CuPy that is installed, down to each call that CUDA gets: nothing here is a stand-in
but the driver, and it runs the kernels too, so a whole model has to come out right."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.cuda import find, read_speed
from app.engine.cuda.decoder import CudaDecoder
from app.engine.cuda.device import Program
from app.engine.cuda.read_speed import ReadSpeed
from app.engine.cuda.sources import MODEL
from app.engine.cuda.weights import plan_weights
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from app.errors import CudaUnavailableError
from tests.engine.cuda.emulated_device import WARPS, EmulatedDevice
from tests.engine.cuda.fake_driver import FakeDriver
from tests.engine.cuda.fake_runtime import NOT_READY, OUT_OF_MEMORY, Call
from tests.engine.cuda.test_decoder import HEAD_DIM, TOKENS, logits_of
from tests.engine.cuda.test_greedy import all_of, best_tokens
from tests.engine.decoders import cpu_decoder, reference_logits
from tests.gguf_files import write_model
from tests.kept import TEST_CACHE

# How the driver is found to be there, before CuPy is imported.
PROBE = {"cuInit": lambda self, flags: 0, "cuDeviceGetCount": lambda self, count: setattr(count._obj, "value", 1) or 0}


@cache
def cuda() -> tuple[FakeDriver, EmulatedDevice]:
    """One for the process: CuPy holds on to it to the end."""
    device = EmulatedDevice()
    return FakeDriver(device.emulator), device


@pytest.fixture(scope="module")
def fake_cuda() -> Iterator[FakeDriver]:
    """CuPy with the CUDA of fake_runtime.py and fake_driver.py."""
    driver, _ = cuda()
    real = ctypes.CDLL

    def load(name: Any, *more: Any, **options: Any) -> Any:
        if name != "libcuda.so.1":
            return real(name, *more, **options)
        library = driver.library()
        for function, body in PROBE.items():
            setattr(type(library), function, body)
        return library

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctypes, "CDLL", load)
        patch.setenv("CUPY_CACHE_DIR", str(TEST_CACHE / "cupy"))
        from cupy_backends.cuda.api import runtime  # noqa: PLC0415 - looks at the environment when it is imported

        driver.take_over(Path(runtime.__file__))
        yield driver


@pytest.fixture
def driver(fake_cuda: FakeDriver) -> Iterator[FakeDriver]:
    """The same with nothing on it but what this test does."""
    fake_cuda.calls.clear()
    yield fake_cuda
    assert fake_cuda.problems == []


@pytest.fixture
def gpu(driver: FakeDriver) -> Any:
    """The adapter. What it compiles is what the driver runs."""
    from app.engine.cuda.cupy_device import CupyDevice  # noqa: PLC0415 - imports CuPy

    class Device(CupyDevice):
        def compile(self, constants: Mapping[str, int], main: Path = MODEL) -> Program:
            module = cuda()[1].compile(constants, main).module  # type: ignore[attr-defined]
            driver.kernels |= dict.fromkeys(module.kernels, module)
            return super().compile(constants, main)

    return Device(0)


def test_the_first_gpu_is_opened_and_described(driver: FakeDriver) -> None:
    facts = find.open_gpu().facts
    assert (facts.name, facts.architecture, facts.n_multiprocessors) == ("Fake GPU", "sm_80", 2)
    assert (facts.shared_bytes, facts.cooperative, facts.total_bytes) == (99 << 10, True, 3 << 30)
    assert driver.calls == [Call("cudaStreamCreateWithPriority", (1, 0))]  # that does not wait for CUDA's own stream


def test_another_gpu_is_the_current_one_from_then_on(driver: FakeDriver) -> None:
    from app.engine.cuda.cupy_device import CupyDevice  # noqa: PLC0415 - imports CuPy

    CupyDevice(1)
    assert driver.current == 1
    CupyDevice(0)
    assert driver.current == 0


def test_a_gpu_that_is_too_old_is_refused(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "OLDEST", (8, 6))
    with pytest.raises(CudaUnavailableError, match=r"capability 8\.6 or newer; this one has 8\.0: use --device cpu"):
        find.open_gpu()


def test_memory_is_copied_in_the_order_of_one_stream(driver: FakeDriver, gpu: Any) -> None:
    assert gpu.free_bytes() == 2 << 30
    values, back = np.arange(10, dtype=np.int32), np.zeros(12, np.int32)
    driver.calls.clear()
    buffer, other = gpu.allocate(64), gpu.allocate(80)
    gpu.clear(buffer)
    gpu.write(buffer, values, 8)
    gpu.copy(other, buffer)
    gpu.read(other, back, 4)
    assert back.tolist() == [0, *range(10), 0]
    mine = gpu.stream.ptr
    assert driver.calls == [
        Call("cudaMalloc", (64,)),
        Call("cudaMalloc", (80,)),
        Call("cudaMemsetAsync", (0, 64), mine),
        Call("cudaMemcpyAsync", (40, "to device"), mine),
        Call("cudaMemcpyAsync", (64, "on device"), mine),
        Call("cudaMemcpyAsync", (48, "to host"), mine),
        Call("cudaStreamSynchronize", (), mine),
    ]
    del buffer
    assert driver.calls[-1] == Call("cudaFree", ())


def test_memory_of_the_host_is_page_locked_and_freed_with_the_array(driver: FakeDriver, gpu: Any) -> None:
    host = gpu.host_array(4096)
    assert (host.dtype, host.shape) == (np.uint8, (4096,))
    assert driver.count("cudaHostAlloc") == 1
    host[:] = 7
    buffer, back = gpu.allocate(4096), np.zeros(4096, np.uint8)
    gpu.write(buffer, host)
    gpu.read(buffer, back)
    assert (back == 7).all()


def test_a_copy_past_the_end_never_begins(driver: FakeDriver, gpu: Any) -> None:
    buffer = gpu.allocate(16)
    driver.calls.clear()
    for wrong in (lambda: gpu.write(buffer, np.zeros(5, np.int32)), lambda: gpu.read(buffer, np.zeros(4, np.int32), 1)):
        with pytest.raises(ValueError, match="of 16"):
            wrong()
    with pytest.raises(ValueError, match="17 bytes at 0 of 16"):
        gpu.copy(buffer, gpu.allocate(17))
    assert driver.calls == [Call("cudaMalloc", (17,)), Call("cudaFree", ())]


def test_too_little_memory_is_a_memory_error_and_any_other_error_is_itself(driver: FakeDriver, gpu: Any) -> None:
    driver.failing["cudaMalloc"] = OUT_OF_MEMORY
    with pytest.raises(MemoryError, match="no 5,000 bytes of GPU memory"):
        gpu.allocate(5000)
    driver.failing["cudaMalloc"] = 999
    with pytest.raises(RuntimeError, match="error 999"):
        gpu.allocate(5000)


def test_memory_that_kernels_and_the_host_share_has_one_address(driver: FakeDriver, gpu: Any) -> None:
    mapped = gpu.mapped(256)
    assert driver.count("cudaHostAlloc") == 1
    assert (mapped.array.dtype, mapped.array.shape, mapped.array.any()) == (np.uint8, (256,), False)
    assert mapped.array.ctypes.data == mapped.address
    mapped.array[:16] = 1
    buffer = gpu.allocate(16)
    buffer.address, address = mapped.address, buffer.address  # as a kernel is given it
    assert ReadSpeed(gpu, buffer).total() == 4 * 0x01010101
    buffer.address = address


def test_whether_anything_runs_is_asked_of_the_stream(driver: FakeDriver, gpu: Any) -> None:
    assert gpu.idle()
    driver.failing["cudaStreamQuery"] = NOT_READY
    assert not gpu.idle()
    assert [call for call in driver.calls if call.function == "cudaStreamQuery"] == [
        Call("cudaStreamQuery", (), gpu.stream.ptr)
    ]
    driver.failing["cudaStreamQuery"] = 700  # what a kernel that went wrong leaves
    with pytest.raises(RuntimeError, match="error 700"):
        gpu.idle()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model.gguf", head_dim=HEAD_DIM, n_layers=1)


@pytest.mark.parametrize("persistent", [True, False], ids=["one launch", "a launch a phase"])
def test_a_whole_model_through_cupy_has_the_bits_of_the_reference(
    persistent: bool, driver: FakeDriver, gpu: Any, model: Path
) -> None:
    with read_gguf(model) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        decoder = CudaDecoder(
            gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=64, kv="f16", warps=WARPS, persistent=persistent
        )
        assert decoder.persistent == persistent
        got = logits_of(decoder, TOKENS, (1, 1, 1, 10, 8, 3))
        decoder.close()
    assert np.array_equal(got, reference_logits(model, TOKENS))
    assert {call.stream for call in driver.calls} - {None} == {gpu.stream.ptr}
    assert driver.count("cudaMalloc") == driver.count("cudaFree")
    cooperative = [call for call in driver.calls if call.function == "cuLaunchCooperativeKernel"]
    assert {call.arguments[0] for call in cooperative} == ({"step_1", "step_8", "step_4"} if persistent else set())
    assert driver.count("cudaGraphInstantiate") == (0 if persistent else 3)
    assert driver.count("cudaGraphLaunch") == (0 if persistent else 2)  # of steps of one token, after the first


def test_greedy_tokens_come_through_memory_of_the_host(driver: FakeDriver, gpu: Any, model: Path) -> None:
    with read_gguf(model) as gguf, cpu_decoder(model) as cpu:
        spec = ModelSpec.from_gguf(gguf)
        decoder = CudaDecoder(gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=64, kv="f16", warps=WARPS)
        decoder.forward(TOKENS[:4], 0)
        wanted = best_tokens(cpu, TOKENS[:5], 4)
        driver.calls.clear()
        assert all_of(decoder.run_greedily(TOKENS[4], (), 4, ())) == [[token] for token in wanted]
        assert driver.count("cuLaunchCooperativeKernel") == 1
        assert not any("to host" in call.arguments for call in driver.calls)
        for status in (719, 600):  # a kernel that went wrong, and one that runs
            run = decoder.run_greedily(wanted[-1], (), 1, ())
            assert len(run.next_step()[0]) == 1
            driver.failing["cudaStreamQuery"] = status
            if status == 719:
                with pytest.raises(RuntimeError, match="error 719"):
                    run.next_step()
            assert run.next_step() == ((), None)


def test_greedy_steps_of_one_launch_come_through_cupy(driver: FakeDriver, gpu: Any, model: Path) -> None:
    with read_gguf(model) as gguf:
        spec = ModelSpec.from_gguf(gguf)
        decoder = CudaDecoder(gguf, spec, plan_weights(gguf, spec), gpu, n_ctx=64, kv="f16", warps=WARPS)
        decoder.forward(TOKENS[:9], 0)
        driver.calls.clear()
        run, got = decoder.run_greedily(TOKENS[9], (), 5, ()), []
        while tokens := run.next_step()[0]:
            got += tokens
        launches = [call for call in driver.calls if "Launch" in call.function]
        decoder.close()
    fed = [*TOKENS[:10], *got]
    assert len(launches) == 1 and launches[0].function == "cuLaunchCooperativeKernel"
    assert got == reference_logits(model, fed)[9:14].argmax(axis=1).tolist()


def test_a_kernel_that_needs_much_shared_memory_asks_for_it_once(driver: FakeDriver, gpu: Any) -> None:
    program = gpu.compile({}, read_speed.MAIN)
    for n_bytes in (48 << 10, 60 << 10, 60 << 10):
        assert program.resident_blocks("read_memory", 256, n_bytes) == 1  # none, had it not asked
    asked = [call.arguments for call in driver.calls if call.function == "cuFuncSetAttribute"]
    assert asked == [("read_memory", 60 << 10)]


def test_a_kernel_of_another_file_is_compiled_and_run(
    driver: FakeDriver, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_speed, "LEAST_BYTES", 1)
    memory = gpu.allocate(64)
    gpu.write(memory, np.arange(16, dtype=np.uint32))
    assert ReadSpeed(gpu, memory).total() == 120
    (launch,) = [call for call in driver.calls if call.function == "cuLaunchKernel"]
    assert launch == Call("cuLaunchKernel", ("read_memory", (16, 1, 1), (256, 1, 1), 0, (4,)), gpu.stream.ptr)


def test_a_cupy_that_cannot_compile_is_told_of(driver: FakeDriver, gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.engine.cuda import cupy_device  # noqa: PLC0415 - imports CuPy

    def without(*_: Any, **__: Any) -> None:
        raise RuntimeError("Failed to find\n  CUDA headers")

    monkeypatch.setattr(cupy_device, "CupyProgram", without)
    with pytest.raises(CudaUnavailableError, match=r"does not start \(Failed to find CUDA headers\): pip install"):
        gpu.compile({}, read_speed.MAIN)
