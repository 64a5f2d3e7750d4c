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


def test_a_context_shrinks_to_what_fits_but_not_below_what_is_of_use() -> None:
    assert context_that_fits(NEED, 100 * GB, 4096, least=4096, name="a GPU") == 4096
    assert context_that_fits(NEED, 5 * GB, 4096, least=1280, name="a GPU") == 1280
    assert context_that_fits(NEED, 5 * GB, 1024, least=4096, name="a GPU") == 1024  # all that the model has
    with pytest.raises(DeviceMemoryError):
        context_that_fits(NEED, 5 * GB, 4096, least=1281, name="a GPU")


@pytest.mark.parametrize(
    ("free", "q8_0", "ways"),
    [
        (5 * GB, None, "--ctx 1280"),
        (5 * GB, Need(4 * GB, GB // 20), "--ctx 1280 or --kv q8_0 --ctx 2560"),
        (6 * GB, Need(4 * GB, GB // 20), "--ctx 2560 or --kv q8_0"),
        (4 * GB + GB // 20, Need(4 * GB, GB // 20), "--kv q8_0 --ctx 128"),
        (3 * GB, Need(4 * GB, GB // 20), "a smaller model or quantisation"),
        (7 * GB + GB // 5 - 1, None, "--ctx 3968"),  # a byte too little, and it shows
    ],
)
def test_too_little_memory_names_what_is_needed_what_is_free_and_what_fits(
    free: int, q8_0: Need | None, ways: str
) -> None:
    with pytest.raises(DeviceMemoryError) as raised:
        context_that_fits(NEED, free, 4096, least=4096, name="a GPU", with_q8_0=q8_0)
    told = f"a GPU has {free // (GB // 10) / 10} GB free, and 7.2 GB are needed for a context of 4,096 tokens"
    assert (raised.value.message, raised.value.hint) == (told, f"{ways} fits; --device cpu needs none of it")


def test_a_byte_too_little_shows() -> None:
    with pytest.raises(DeviceMemoryError, match=r"4\.1 GB free, and 4\.2 GB are needed for a context of 128 tokens"):
        context_that_fits(Need(4 * GB + 1, GB // 10), 4 * GB + GB // 10, 128, least=128, name="a GPU")


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
