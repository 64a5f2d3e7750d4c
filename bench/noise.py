"""How much of its speed an engine keeps while another process spins on a core, at the same priority.

    python bench/noise.py MODEL ... [--repetitions 5] [--json FILE]

Each repetition takes every engine alone and then beside the spinning process. With two threads on two cores a fair
share of the machine is two thirds; what an engine keeps above or below that is its own doing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from participant import GENERATED, PROMPT, Participant, Speeds, ratio
from peer_llama_cpp import llama_cpp
from peer_qchat import ROOT, QChat
from peers import add_common_options, resolve, tell

# It ends with the bench, however that ends.
SPIN = """
import os
bench = os.getppid()
print(flush=True)
while os.getppid() == bench:
    for _ in range(10**6):
        pass
"""


@contextmanager
def spinning() -> Iterator[None]:
    """Beside a process that never waits."""
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def measure(path: Path, options: argparse.Namespace) -> dict[str, dict[str, list[Speeds]]]:
    """Speeds by participant, "alone" and "beside"."""
    with ExitStack() as stack:
        participants: list[Participant] = [stack.enter_context(closing(QChat(path, options.threads, 0)))]
        if not options.no_peer:
            participants.insert(0, stack.enter_context(closing(llama_cpp(path, options.threads, 0, tell))))
        taken: dict[str, dict[str, list[Speeds]]] = {one.name: {"alone": [], "beside": []} for one in participants}
        for _ in range(options.repetitions):
            for one in participants:
                taken[one.name]["alone"].append(one.measure(0))
                with spinning():
                    taken[one.name]["beside"].append(one.measure(0))
    return taken


def rows(taken: dict[str, dict[str, list[Speeds]]]) -> Sequence[str]:
    heads = [
        f"{kind + word:>13}" for kind in (f"pp{PROMPT}", f"tg{GENERATED}") for word in (" alone", " beside", " kept")
    ]
    lines = [f"{'':20}{''.join(heads)}"]
    for name, speeds in taken.items():
        line = f"{name:20}"
        for kind in ("prompt", "generate"):
            alone, beside = ([getattr(one, kind) for one in speeds[when]] for when in ("alone", "beside"))
            line += f"{statistics.median(alone):13.1f}{statistics.median(beside):13.1f}{ratio(beside, alone):13.0%}"
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    results = {}
    for model in options.models:
        print(f"\n{model}, {options.threads} threads, {options.repetitions} repetitions", flush=True)
        taken = measure(resolve(model), options)
        print("\n".join(rows(taken)), flush=True)
        results[model] = {
            name: {when: [asdict(one) for one in speeds] for when, speeds in by.items()} for name, by in taken.items()
        }
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
