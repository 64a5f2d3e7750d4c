"""What a model takes of a GPU is known before any of it is taken, and too little memory is an answer, not a crash."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest

from app.engine.cuda.device import Buffer
from app.engine.cuda.memory import SPARE_BYTES, Need, context_that_fits, need_of
from app.engine.cuda.program import largest_chunk
from app.engine.cuda.weights import plan_weights
from app.engine.formats import FORMATS
from app.engine.gguf import read_gguf
from app.engine.spec import ModelSpec
from app.errors import DeviceMemoryError
from tests.conftest import DATA
from tests.engine.cuda.emulated_device import EmulatedDevice, emulated_decoder
from tests.gguf_files import write_model

GB = 10**9
NEED = Need(fixed=4 * GB, per_chunk=GB // 10)


class CountingDevice(EmulatedDevice):
    """Counts bytes that were ever asked for and refuses those beyond `limit`; `held` are those not yet given back."""

    allocated = held = 0
    limit: int | None = None

    def allocate(self, n_bytes: int) -> Buffer:
        self.allocated += n_bytes
        if self.limit is not None and self.allocated > self.limit:
            raise MemoryError
        buffer = super().allocate(n_bytes)
        self.held += n_bytes
        weakref.finalize(buffer, self._given_back, n_bytes)
        return buffer

    def _given_back(self, n_bytes: int) -> None:
        self.held -= n_bytes


@pytest.mark.parametrize("kind", [kind.name for kind in FORMATS if FORMATS[kind].block > 1])
def test_packed_weights_stay_near_the_size_of_the_file(kind: str, tmp_path: Path) -> None:
    with read_gguf(write_model(tmp_path / "model.gguf", types=kind, d_model=1024, d_ff=2816, n_layers=1)) as gguf:
        plan = plan_weights(gguf, ModelSpec.from_gguf(gguf))
        stored = sum(gguf.tensors[matrix.name].n_bytes for matrix in plan.matrices.values())
    assert plan.n_bytes <= 1.06 * stored


def test_what_is_planned_is_what_is_taken() -> None:
    with read_gguf(DATA / "tiny-qwen3-2l-q8_0.gguf") as gguf:
        spec = ModelSpec.from_gguf(gguf)
        plan = plan_weights(gguf, spec)
        device = CountingDevice()
        decoder = emulated_decoder(gguf, device, n_ctx=256)
        decoder.forward([1], 1)
        need = need_of(gguf, spec, plan, "f16", largest_chunk(256))
    planned = need.bytes_for(512) - SPARE_BYTES  # rotation tables begin with 512 positions
    assert device.allocated <= planned + 300_000  # vectors and tables of addresses
    assert device.allocated >= 0.8 * (planned - 3 * decoder.cache.page_bytes)


def test_a_context_that_nobody_asked_for_shrinks_to_what_fits() -> None:
    assert context_that_fits(NEED, 100 * GB, 4096, False, "a GPU") == 4096
    assert context_that_fits(NEED, 5 * GB, 4096, False, "a GPU") == 10 * 128
    assert context_that_fits(NEED, 100 * GB, 4096, True, "a GPU") == 4096


def test_too_little_memory_names_what_is_needed_what_is_free_and_what_fits() -> None:
    with pytest.raises(DeviceMemoryError) as asked:
        context_that_fits(NEED, 5 * GB, 4096, True, "a GPU")
    assert asked.value.message == "a GPU has 5.0 GB free, and 7.2 GB are needed"
    assert asked.value.hint is not None and asked.value.hint.startswith("--ctx 1280 fits")
    with pytest.raises(DeviceMemoryError) as none:
        context_that_fits(NEED, 3 * GB, 4096, False, "a GPU")
    assert none.value.message == "a GPU has 3.0 GB free, and 4.1 GB are needed"
    assert none.value.hint == "a smaller model or quantisation fits, or --device cpu"


def test_a_cache_that_cannot_grow_ends_in_an_error_and_keeps_what_it_held() -> None:
    with read_gguf(DATA / "tiny-qwen3-2l-q8_0.gguf") as gguf:
        device = CountingDevice()
        decoder = emulated_decoder(gguf, device)
        first = decoder.forward([1, 2, 3], 1).copy()
        device.limit = device.allocated
        with pytest.raises(DeviceMemoryError, match="no room for 132 tokens"):
            decoder.forward([1] * 129, 1)
        assert decoder.length == 3
        decoder.truncate(2)
        assert np.array_equal(decoder.forward([3], 1), first)


def test_close_gives_all_memory_back() -> None:
    with read_gguf(DATA / "tiny-qwen3-2l-q8_0.gguf") as gguf:
        device = CountingDevice()
        decoder = emulated_decoder(gguf, device)
        decoder.forward([1, 2, 3], 1)
        assert device.held > decoder.weights.n_bytes
        decoder.close()
        assert device.held == 0
