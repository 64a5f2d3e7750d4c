"""The kernels' object file: compiled when it is missing, found when it is there, named by what it was made from."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu import library
from app.engine.cpu.isa import choose
from app.engine.cpu.pool import Pool
from app.errors import QChatError

ROOT = Path(__file__).parents[3]


def test_kernels_that_are_there_are_loaded_without_a_word() -> None:
    library.load_kernels(choose(), lambda _: None)  # compiled now, if no test has done it yet
    told: list[str] = []
    library.load_kernels(choose(), told.append)
    assert told == []


def test_missing_kernels_are_announced_compiled_and_older_ones_dropped(
    home_with_kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.load_kernels(choose(), lambda _: None)
    shared = library.object_path(choose())
    folder = home_with_kernels / "kernels"
    folder.mkdir()
    monkeypatch.setattr(library, "caution", lambda isa: f"careful with {isa.name}")
    wanted, older = folder / shared.name, folder / f"{choose().name}-0000000000000000.o"
    older.write_bytes(b"")
    monkeypatch.setattr(library, "object_path", lambda isa: wanted)
    real_run, commands = subprocess.run, []

    def run(command: list[str], **options: object) -> object:
        """Record the real command; take the compiled file from the shared folder, for the compiler needs 30 s."""
        commands.append(command)
        Path(command[-1]).write_bytes(shared.read_bytes())
        return real_run([sys.executable, "-c", ""], capture_output=True, text=True, check=False)

    monkeypatch.setattr(subprocess, "run", run)
    told: list[str] = []
    library.load_kernels(choose(), told.append)
    assert told == ["compiling kernels (once)", f"careful with {choose().name}"]
    assert commands == [[sys.executable, "-P", "-m", "app.engine.cpu.compile", choose().name, str(wanted)]]
    assert [file.name for file in folder.iterdir()] == [wanted.name]


def test_a_compiler_that_fails_is_one_line_with_its_last_words(
    qchat_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "object_path", lambda isa: qchat_home / "none" / "x.o")
    real_run = subprocess.run
    failing = [sys.executable, "-c", "raise SystemExit('no space left')"]
    monkeypatch.setattr(
        subprocess, "run", lambda _command, **_: real_run(failing, capture_output=True, text=True, check=False)
    )
    with pytest.raises(QChatError, match="could not be compiled: no space left"):
        library.load_kernels(choose(), lambda _: None)


def test_the_name_changes_with_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, sources = library.object_path(choose()), library.sources()
    for index, changed in enumerate(sources):
        other = tmp_path / changed.name
        other.write_text(f"{changed.read_text()}\n# changed")
        files = [*sources[:index], other, *sources[index + 1 :]]
        monkeypatch.setattr(library, "sources", lambda files=files: files)
        assert library.object_path(choose()).name != before.name, changed


def test_everything_that_the_compiler_reads_is_a_source() -> None:
    """A change of any other module changes no machine code."""
    listing = (
        "import sys, app.engine.cpu.compile; print(*(m.__file__ for n, m in sys.modules.items() if n[:4] == 'app.'))"
    )
    run = subprocess.run([sys.executable, "-P", "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True)
    read = {Path(name).resolve() for name in run.stdout.split() if Path(name).name != "__init__.py"}
    around = {"library.py", "memory.py"}  # how it is run, with settings and errors
    outside = {(ROOT / "app").resolve(), (ROOT / "app" / "settings").resolve()}
    made_from = {file for file in read if file.name not in around and file.parent not in outside}
    assert {file.resolve() for file in library.sources()} >= made_from


def test_machine_code_lives_as_long_as_the_threads_that_run_it() -> None:
    pool = Pool(library.load_kernels(choose(), lambda _: None), 2)  # nobody else holds the kernels
    gc.collect()
    memory, sums = np.full(1 << 16, 1, np.uint8), np.zeros(2, np.int32)
    table = np.array([memory.ctypes.data, memory.nbytes, 2, sums.ctypes.data], np.int64)  # as layout.Stream
    pool.stream(table.ctypes.data)
    pool.close()
    assert sums.tolist() == [(0x01010101 * (memory.nbytes // 8)) & 0x7FFFFFFF] * 2  # int32, wrapping


def test_running_a_model_imports_no_numba() -> None:
    script = "import sys, app.engine.model, app.engine.benchmark; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
