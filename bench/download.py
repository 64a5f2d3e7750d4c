"""The speed of a pull beside curl on the same file of a server on this machine, in turn, each on one core.

    python -m bench.download [MEGABYTES] [ROUNDS] [FOLDER]

qchat checks the sha256 of what it fetches; curl does not, so it is measured alone and followed by
`openssl dgst -sha256`. The file is gathered in FOLDER: in memory by default (/dev/shm), so that the disk is left out.
What counts is processor time, which a busy neighbour does not lengthen; the clock's stands beside it. On Linux only.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.fast_server import serving, write_model

CLIENT, SERVER = 0, 1  # cores


def main(megabytes: int, rounds: int, folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch, tempfile.TemporaryDirectory(dir=folder) as home:
        source = write_model(Path(scratch) / "source.gguf", megabytes)
        with serving(source, cores={SERVER}) as url:
            contestants: dict[str, Callable[[], None]] = {
                "curl": lambda: curl(url, Path(scratch) / "fetched"),
                "curl + openssl": lambda: curl_and_hash(url, Path(scratch) / "fetched"),
                "qchat, 1 connection": lambda: qchat(url, home, 1),
                "qchat, 4 connections": lambda: qchat(url, home, 4),
            }
            times: dict[str, list[Time]] = {name: [] for name in contestants}
            idle = [timed(lambda: python("import app.hub.download.from_web", home)) for _ in range(rounds)]
            for _ in range(rounds):
                for name, run in contestants.items():
                    times[name].append(timed(run))
        size = source.stat().st_size
    start = median(idle)
    print(f"{size / 1e6:.0f} MB, medians of {rounds} in turn, one core; qchat without its start of {start.cpu:.2f} s")
    alone, base = median(times["curl"]), median(times["curl + openssl"])
    for name, taken in times.items():
        time = median(taken) - (start if name.startswith("qchat") else Time(0, 0))
        print(
            f"{name:<22} {size / 1e6 / time.cpu:7.0f} MB/s, {100 * base.cpu / time.cpu:4.0f} % of curl + openssl,"
            f" {100 * alone.cpu / time.cpu:4.0f} % of curl alone"
            f"   by the clock {size / 1e6 / time.wall:5.0f} MB/s, {100 * base.wall / time.wall:4.0f} % and"
            f" {100 * alone.wall / time.wall:4.0f} %"
        )


class Time(NamedTuple):
    """Seconds of the processor, and of the clock."""

    cpu: float
    wall: float

    def __sub__(self, other: Time) -> Time:  # type: ignore[override]
        return Time(self.cpu - other.cpu, self.wall - other.wall)


def timed(run: Callable[[], None]) -> Time:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), clock.perf_counter()
    run()
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), clock.perf_counter() - begun
    return Time(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def median(times: list[Time]) -> Time:
    return Time(statistics.median(time.cpu for time in times), statistics.median(time.wall for time in times))


def curl(url: str, target: Path) -> None:
    on_one_core(["curl", "--silent", "--fail", "--output", str(target), url])


def curl_and_hash(url: str, target: Path) -> None:
    curl(url, target)
    on_one_core(["openssl", "dgst", "-sha256", str(target)])


def qchat(url: str, home: str, connections: int) -> None:
    """A pull in a process of its own; the model is removed afterwards."""
    code = (
        "from app.hub import Library; from app.hub.download import pull; from app.settings import paths;"
        f"pull({url!r}, Library(paths().models_dir)).path.unlink()"
    )
    python(code, home, QCHAT_DOWNLOAD_CONNECTIONS=str(connections))


def python(code: str, home: str, **environment: str) -> None:
    on_one_core([sys.executable, "-c", code], os.environ | {"QCHAT_HOME": home, "HF_ENDPOINT": ""} | environment)


def on_one_core(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(["taskset", "-c", str(CLIENT), *command], env=environment, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    arguments = sys.argv[1:] + ["500", "5", "/dev/shm"][len(sys.argv) - 1 :]
    main(int(arguments[0]), int(arguments[1]), arguments[2])
