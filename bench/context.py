"""Prompt and generation speed deep in a conversation: what attention costs, ours and llama.cpp's in turn.

    python bench/context.py MODEL ... [--depths 0 1024 4096 16384] [--repetitions 3] [--json FILE]

Depths that the model's own context does not reach are left out, and said to be. llama.cpp reads the whole depth anew
for each measurement, so 16,384 tokens take minutes a repetition.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from participant import room
from peer_qchat import ROOT
from peers import add_common_options, measure, resolve, tell

DEPTHS = (0, 1024, 4096, 16384)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_common_options(parser)
    parser.add_argument("--depths", type=int, nargs="+", default=DEPTHS, help="tokens that are in the cache before")
    parser.set_defaults(repetitions=3, before=None)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from app.engine.gguf import read_gguf
    from app.engine.spec import ModelSpec

    results: dict[str, dict[int, object]] = {}
    for model in options.models:
        path = resolve(model)
        with read_gguf(path) as gguf:
            longest = ModelSpec.from_gguf(gguf).context_length
        results[model] = {}
        for depth in options.depths:
            if room(depth) > longest:
                tell(f"{model} has a context of {longest:,}: no measurement at {depth:,}")
                continue
            options.depth = depth
            print(f"\n{model}, {options.threads} threads, depth {depth}, {options.repetitions} repetitions", flush=True)
            readings = measure(path, options, [""])
            results[model][depth] = {name: [asdict(one) for one in taken] for name, taken in readings.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
