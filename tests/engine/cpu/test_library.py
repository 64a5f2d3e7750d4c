"""The kernels' object file: compiled when it is missing, found when it is there, named by what it was made from."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from app.engine.cpu import library
from app.engine.cpu.isa import choose
from app.engine.cpu.pool import Pool
from app.errors import QChatError
from app.lock import alone

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


_START = """
import subprocess, sys
from pathlib import Path
from app.engine.cpu import library
from app.engine.cpu.isa import choose

def run(command, **_):
    sys.stdin.read()  # it takes as long as the test wants
    Path(command[-1]).write_bytes(Path(sys.argv[2]).read_bytes())
    return subprocess.CompletedProcess(command, 0, "", "")

subprocess.run = run
library.object_path, library.caution = lambda isa: Path(sys.argv[1]), lambda isa: None
library.load_kernels(choose(), lambda text: print(text, flush=True))
print("loaded", flush=True)
"""


def start(wanted: Path) -> subprocess.Popen[str]:
    """A process that needs the kernels `wanted`, which its compiler makes when its standard input ends."""
    shared = library.object_path(choose())
    command = [sys.executable, "-c", _START, str(wanted), str(shared)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


COMPILES, WAITS = "compiling kernels (once)", "waiting for another qchat that compiles the kernels (once)"


@pytest.mark.parametrize("killed", [False, True])
def test_of_two_qchats_one_compiles_and_the_other_waits_or_takes_over(tmp_path: Path, killed: bool) -> None:
    library.load_kernels(choose(), lambda _: None)
    wanted = tmp_path / "kernels" / "k.o"
    with start(wanted) as first:
        assert next_line(first) == COMPILES
        with start(wanted) as second:
            assert next_line(second) == WAITS
            if killed:
                first.kill()
                assert next_line(second) == COMPILES
                assert second.communicate() == ("loaded\n", None)
            else:
                assert first.communicate() == ("loaded\n", None)
                assert next_line(second) == "loaded"
    assert [file.name for file in wanted.parent.iterdir()] == ["k.o"]


@pytest.mark.parametrize(("seconds", "told"), [(0.9, []), (1.5, [WAITS]), (30.0, [WAITS])])
def test_a_short_wait_is_not_worth_a_word_and_a_long_one_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, told: list[str]
) -> None:
    library.load_kernels(choose(), lambda _: None)
    shared, wanted, now = library.object_path(choose()), tmp_path / "k.o", 100.0
    monkeypatch.setattr(library, "object_path", lambda isa: wanted)
    monkeypatch.setattr(library.time, "monotonic", lambda: now)
    said: list[str] = []
    with ExitStack() as other:
        other.enter_context(alone(tmp_path / "k.o.lock", lambda: None))

        def sleep(slept: float) -> None:
            nonlocal now
            now += slept
            if now >= 100 + seconds and not wanted.exists():
                wanted.write_bytes(shared.read_bytes())
                other.close()

        monkeypatch.setattr(library.time, "sleep", sleep)
        library.load_kernels(choose(), said.append)
    assert said == told


def test_where_nothing_can_be_locked_kernels_are_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.load_kernels(choose(), lambda _: None)
    shared, wanted = library.object_path(choose()), tmp_path / "k.o"
    (tmp_path / "k.o.lock").mkdir()
    monkeypatch.setattr(library, "object_path", lambda isa: wanted)
    monkeypatch.setattr(library, "_compile", lambda isa, path: path.write_bytes(shared.read_bytes()))
    library.load_kernels(choose(), lambda _: None)


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
