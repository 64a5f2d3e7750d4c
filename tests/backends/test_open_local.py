"""Opening the engine of this process."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from app.backends.local import open_local
from app.settings import load_settings


def test_threads_that_run_python_hand_its_lock_to_the_engine_soon(tiny_qwen3_path: Path) -> None:
    before = sys.getswitchinterval()
    try:
        backend = open_local(replace(load_settings(), model=str(tiny_qwen3_path)), lambda _: None)
        asyncio.run(backend.close())
        assert sys.getswitchinterval() < 0.0005
    finally:
        sys.setswitchinterval(before)
