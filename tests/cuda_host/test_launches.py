"""Wrong launches are found before anything runs; what a finding says; what a kernel file must not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda_host.build import CompileError
from tests.cuda_host.emulator import Emulator, Module
from tests.cuda_host.finding import Finding

HERE = Path(__file__).parent
VALUES, PLANTED = HERE / "values.cu", HERE / "planted" / "all.cu"


class Convert:
    """A right launch of `convert` in values.cu, to be made wrong in one point."""

    def __init__(self) -> None:
        self.device = Emulator(max_shared_bytes=64 * 1024, max_resident_blocks=8)
        self.module = self.device.module(VALUES)
        self.grid, self.block = (1,), (64,)
        self.kernel = "convert"
        self.options: dict[str, Any] = {}
        floats, halves = np.zeros(64, np.float32), np.zeros(64, np.float16)
        self.arguments: list[Any] = [
            self.device.upload(floats, "floats"),
            self.device.allocate(128, "to_half", np.float16),
            self.device.allocate(128, "to_bfloat"),
            self.device.upload(halves, "halves"),
            self.device.allocate(256, "from_half", np.float32),
            np.int32(64),
        ]

    def launch(self) -> None:
        self.module.launch(self.kernel, self.grid, self.block, self.arguments, **self.options)


def argument(position: int, value: Any) -> Callable[[Convert], object]:
    return lambda launch: launch.arguments.__setitem__(position, value)


def options(**values: Any) -> Callable[[Convert], object]:
    return lambda launch: launch.options.update(values)


def swap(launch: Convert) -> None:
    launch.arguments[0], launch.arguments[3] = launch.arguments[3], launch.arguments[0]


WRONG: dict[str, tuple[Callable[[Convert], object], str]] = {
    "an argument is missing": (lambda launch: launch.arguments.pop(), "6 parameters, 5 arguments"),
    "a wider integer": (argument(5, np.int64(64)), "argument 5 is int64; the parameter is int"),
    "an unsigned integer": (argument(5, np.uint32(64)), "argument 5 is uint32; the parameter is int"),
    "a float for an integer": (argument(5, np.float32(64)), "argument 5 is float32; the parameter is int"),
    "Python's own integer": (argument(5, 64), "a int, neither a buffer nor a NumPy scalar"),
    "a number for a pointer": (argument(0, np.uint64(4096)), "argument 0 is uint64; the parameter is const float*"),
    "a buffer for a number": (lambda launch: argument(5, launch.arguments[0])(launch), "argument 5 is the buffer"),
    "buffers in the wrong order": (swap, "argument 0 is the buffer 'halves' of float16; the parameter is const float*"),
    "integers for floats": (
        lambda launch: argument(0, launch.device.upload(np.zeros(64, np.int32), "ints"))(launch),
        "argument 0 is the buffer 'ints' of int32; the parameter is const float*",
    ),
    "a buffer that was freed": (lambda launch: launch.device.free(launch.arguments[4]), "'from_half', which was freed"),
    "too many threads": (lambda launch: setattr(launch, "block", (1025,)), "a block of (1025,) threads"),
    "no threads": (lambda launch: setattr(launch, "block", (0,)), "a block of (0,) threads"),
    "too deep a block": (lambda launch: setattr(launch, "block", (1, 1, 65)), "a block of (1, 1, 65) threads"),
    "too wide a grid": (lambda launch: setattr(launch, "grid", (2**31,)), "a grid of (2147483648,) blocks"),
    "no blocks": (lambda launch: setattr(launch, "grid", (0,)), "a grid of (0,) blocks"),
    "too high a grid": (lambda launch: setattr(launch, "grid", (1, 65_536)), "a grid of (1, 65536) blocks"),
    "too much shared memory": (options(shared_bytes=65_537), "65537 bytes of shared memory"),
    "blocks that cannot all be resident": (
        lambda launch: (setattr(launch, "grid", (9,)), options(cooperative=True)(launch)),
        "9 cooperative blocks; 8 can be resident at once",
    ),
    "a kernel that is not there": (lambda launch: setattr(launch, "kernel", "covert"), "the module has convert,"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_launch(name: str) -> None:
    launch, (spoil, words) = Convert(), WRONG[name]
    launch.launch()  # the mended form
    spoil(launch)
    with pytest.raises(Finding) as caught:
        launch.launch()
    assert caught.value.kind == "launch"
    assert words in str(caught.value)


def test_a_finding_names_kernel_block_thread_and_lines() -> None:
    device = Emulator("race", "warp")
    words = device.upload(np.zeros(13, np.uint32), "words")
    freed = device.upload(np.zeros(256, np.float32), "in", read_only=True)
    arguments = [freed, device.allocate(1024, "out", np.float32), words, np.int32(256)]
    with pytest.raises(Finding) as caught:
        device.module(PLANTED).launch("blocks_add_to_one_word_bug", (4,), (64,), arguments)
    finding = caught.value
    line = next(
        number
        for number, text in enumerate((HERE / "planted" / "global_memory.cu").read_text().splitlines(), 1)
        if "here: blocks_add_to_one_word" in text
    )
    assert (finding.kind, finding.kernel) == ("race", "blocks_add_to_one_word_bug")
    assert (finding.block, finding.thread) == ((1, 0, 0), (0, 0, 0))
    assert finding.text.startswith(
        "read of 4 bytes at byte 0 of the 52-byte buffer 'words' is not ordered with the write by block 0 at "
        f"tests/cuda_host/planted/global_memory.cu:{line} in "
    )
    assert finding.places[0].startswith(f"tests/cuda_host/planted/global_memory.cu:{line} in ")


def test_memory_after_a_finding_is_as_the_kernel_left_it_and_the_next_launch_is_sound() -> None:
    device = Emulator("plain", "warp")
    module: Module = device.module(PLANTED)
    inputs = device.upload(np.arange(256, dtype=np.float32), "in", read_only=True)
    out, words = device.allocate(1024, "out", np.float32), device.upload(np.zeros(13, np.uint32), "words")
    arguments = [inputs, out, words, np.int32(256)]
    with pytest.raises(Finding):
        module.launch("one_too_many_bug", (1,), (64,), arguments)
    assert device.read(out)[0] == 0
    assert np.isnan(device.read(out)[255])
    module.launch("one_too_many_mended", (1,), (64,), arguments)
    assert np.array_equal(device.read(out), np.arange(256))


def test_shared_memory_that_the_file_does_not_declare_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "one.cu"
    source.write_text('extern "C" __global__ void one(float* x) { x[blockIdx.x] = 1; }\n')
    device = Emulator("race", "round-robin")
    x = device.allocate(12, "x", np.float32)
    device.module(source).launch("one", (3,), (1,), [x], shared_bytes=4096)
    assert device.read(x).tolist() == [1, 1, 1]


def test_freed_and_short_buffers_are_refused_by_the_host() -> None:
    device = Emulator()
    buffer = device.upload(np.zeros(4, np.float32), "x")
    with pytest.raises(ValueError, match="x has 16 bytes, not 8 \\+ 16"):
        device.write(buffer, np.zeros(4, np.float32), start=8)
    assert device.is_live(buffer)
    assert not device.is_live(replace(buffer, nbytes=17))
    device.free(buffer)
    with pytest.raises(ValueError, match="x was freed"):
        device.read(buffer)


def test_denormals_are_kept_unless_flushed(tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    source.write_text('extern "C" __global__ void scale(float* x, float s) { x[threadIdx.x] *= s; }\n')
    for flush, expected in ((False, np.float32(1e-39)), (True, np.float32(0))):
        device = Emulator(flush_denormals=flush)
        x = device.upload(np.array([2e-39], np.float32), "x")
        device.module(source).launch("scale", (1,), (1,), [x, np.float32(0.5)])
        assert device.read(x)[0] == expected
    assert np.float32(1e-39) * np.float32(1) > 0  # the host computes as before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('extern "C" __global__ void broken(float* x) { x[0] = y; }', "'y' was not declared"),
        ("__global__ void mangled(float* x) { x[0] = 1; }", 'has no extern "C" __global__ function'),
        (
            "extern __shared__ float a[]; extern __shared__ int b[];\n"
            'extern "C" __global__ void two(float* x) { x[0] = a[0] + b[0]; }',
            "several extern __shared__ arrays: a, b",
        ),
        ('extern "C" __global__ void unset(float* x) { float y; x[0] = y; }', "is used uninitialized"),
    ],
)
def test_a_file_that_does_not_compile(tmp_path: Path, text: str, words: str) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(text + "\n")
    with pytest.raises(CompileError) as caught:
        Emulator().module(source)
    assert words in str(caught.value)
