"""Prompt and generation speed of the CPU engine beside its peers, in turn in one run.

    python bench/peers.py MODEL ... [--isa all] [--before FOLDER] [--depth N] [--repetitions 5] [--json FILE]

MODEL is a GGUF file or a name of bench/models.py. Takes part: llama.cpp (bench/native_llama_cpp.py builds it for this
processor), another checkout of qchat (--before), and the instruction sets of --isa: names, or "all" that run here;
without it, the best. Printed: medians, the median ratio of pairs to the first row, and the median share of the memory
limit, which is read around each turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

from models import NAMES, model_path
from participant import GENERATED, PROMPT, Participant, Reading, ratio, take_turns
from peer_llama_cpp import llama_cpp
from peer_qchat import ROOT, QChat
from weights_read import BytesRead, bytes_read


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help=f"a GGUF file, or one of {', '.join(NAMES)}")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every reading there")


def resolve(model: str) -> Path:
    """The file that a MODEL of the command line means."""
    return model_path(model) if model in NAMES else Path(model)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rows(readings: Sequence[Sequence[Reading]], names: Sequence[str], read: BytesRead, depth: int) -> list[str]:
    """The table of one model; the first participant is what the others are compared with."""
    n_bytes = read.at(depth + GENERATED / 2)
    limit = statistics.median(one.limit for taken in readings for one in taken)
    lines = [
        f"a token reads {read.weights / 1e6:.1f} MB of weights (layers and head as in the file; no separate embedding)"
        f" and {(n_bytes - read.weights) / 1e6:.1f} MB of cache; memory limit {limit:.1f} GB/s",
        f"{'':20} {'pp' + str(PROMPT):>9} {'best':>7} {'ratio':>6} {'tg' + str(GENERATED):>9} {'best':>7} {'ratio':>6}"
        f" {'of the limit':>13}",
    ]
    for name, taken in zip(names, readings, strict=True):
        line = f"{name:20}"
        for kind in ("prompt", "generate"):
            values = [getattr(one.speeds, kind) for one in taken]
            base = [getattr(one.speeds, kind) for one in readings[0]]
            line += f" {statistics.median(values):9.1f} {max(values):7.1f} {ratio(values, base):6.2f}"
        share = statistics.median(one.speeds.generate * n_bytes / 1e9 / one.limit for one in taken)
        lines.append(f"{line} {share:13.0%}")
    return lines


def measure(path: Path, options: argparse.Namespace, isas: Sequence[str]) -> dict[str, list[Reading]]:
    """All participants on one model."""
    with ExitStack() as stack:
        ours = [stack.enter_context(closing(QChat(path, options.threads, options.depth, isa=isa))) for isa in isas]
        participants: list[Participant] = [*ours]
        if options.before:
            before = QChat(path, options.threads, options.depth, name="before", folder=options.before.resolve())
            participants.insert(0, stack.enter_context(closing(before)))
        if not options.no_peer:
            peer = llama_cpp(path, options.threads, options.depth, tell)
            participants.insert(0, stack.enter_context(closing(peer)))
        readings = take_turns(participants, options.repetitions, options.depth, ours[-1].stream_gb_s)
        names = [one.name for one in participants]
    print("\n".join(rows(readings, names, bytes_read(path), options.depth)), flush=True)
    return dict(zip(names, readings, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--isa", nargs="+", default=[""], help='instruction sets, or "all"; default: the best')
    parser.add_argument("--before", type=Path, help="another checkout of qchat")
    parser.add_argument("--depth", type=int, default=0, help="tokens that are in the cache before")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from app.engine.cpu.isa import available

    isas = [isa.name for isa in available()] if options.isa == ["all"] else options.isa
    results = {}
    for model in options.models:
        print(f"\n{model}, {options.threads} threads, depth {options.depth}, {options.repetitions} repetitions")
        readings = measure(resolve(model), options, isas)
        results[model] = {name: [asdict(one) for one in taken] for name, taken in readings.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
