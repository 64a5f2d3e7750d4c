"""Replies with speculation and without, in turn in one run, and llama.cpp's n-gram modes beside them.

    python bench/speculation.py MODEL ... [--threads 1] [--repetitions 3] [--tokens 128] [--no-peer] [--json FILE]

MODEL is a GGUF file with a chat template, or smollm2-q4_1 or tiny-qwen3. The tasks are those of `qchat bench --spec`
(app/cli/bench_tasks.py), greedy. Each figure is a mode's speed over the plain speed of the same engine and task, as the
median of pairs; only what comes after the first token counts. It is processor time of all threads, which on a machine
that others use too says more than the clock; with one thread no time is spent on waiting. Speculation starts anew with
each reply and learns from it alone. llama.cpp is the wheel's, its modes as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from child import Child, serve
from models import model_path
from peer_qchat import ROOT, home_of

SHORT = {"tiny-qwen3": ROOT / "tests" / "data" / "tiny-qwen3-q8_0.gguf"}
MODES = {
    "simple": "NGRAM_SIMPLE", "map-k": "NGRAM_MAP_K", "map-k4v": "NGRAM_MAP_K4V", "mod": "NGRAM_MOD",
    "cache": "NGRAM_CACHE",
}  # fmt: skip
CONTEXT = 2048


class _QChat:
    """The child's side of our engine."""

    def __init__(self, path: str, threads: int) -> None:
        from app.backends.prompting import Prompter
        from app.cli.bench_tasks import TASKS
        from app.engine.model import load_model
        from app.templates.render import Conversation

        self._model = load_model(path, threads=threads, n_ctx=CONTEXT, notify=lambda text: print(text, file=sys.stderr))
        prompter = Prompter(self._model.metadata, self._model.tokenizer)
        self.prompts = {task.name: prompter.chat(Conversation(task.messages)).ids for task in TASKS}
        self.repeating = [task.name for task in TASKS if task.repeats]
        prompter.close()

    def work(self, prompt: Sequence[int], tokens: int, spec: bool) -> dict[str, Any]:
        from app.engine.generate import GenerationSettings, Generator
        from app.engine.sampling import SamplingParams
        from app.engine.speculation.speculator import Speculator

        generator = Generator(self._model.decoder, self._model.tokenizer, Speculator() if spec else None)
        stream = generator.stream(prompt, GenerationSettings(SamplingParams(temperature=0), tokens))
        ids = [next(stream).token_id]
        before = time.process_time()
        ids += [piece.token_id for piece in stream]
        seconds = time.process_time() - before
        usage = generator.usage
        drawn = usage.decode_steps + usage.accepted_tokens
        return {
            "ids": ids, "tok_s": drawn / seconds, "tokens_per_step": drawn / usage.decode_steps,
            "drafted": usage.drafted_tokens, "accepted": usage.accepted_tokens,
        }  # fmt: skip


class _LlamaCpp:
    """The child's side of llama.cpp's server in one mode."""

    def __init__(self, path: str, threads: int, mode: str) -> None:
        import xllamacpp

        from tests import llama_cpp

        class Speculating(xllamacpp.CommonParams):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                if mode != "plain":
                    kinds = xllamacpp.common_speculative_type
                    self.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{MODES[mode]}")]

        llama_cpp.xllamacpp.CommonParams = Speculating
        self._peer = llama_cpp.LlamaCpp(Path(path), n_ctx=CONTEXT, threads=threads)

    def work(self, prompt: Sequence[int], tokens: int) -> dict[str, Any]:
        self._peer._complete(prompt, n_predict=1, cache_prompt=True)
        before = time.process_time()
        reply = self._peer._complete(prompt, n_predict=tokens, cache_prompt=True)
        seconds = time.process_time() - before
        timings = reply["timings"]
        return {
            "ids": reply["tokens"], "tok_s": len(reply["tokens"]) / seconds,
            "drafted": timings.get("draft_n", 0), "accepted": timings.get("draft_n_accepted", 0),
        }  # fmt: skip


def measure(model: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Readings by mode and task, [repetition]."""
    readings: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ExitStack() as stack:
        ours = stack.enter_context(closing(_child("qchat", model, options.threads)))
        prompts: Mapping[str, Sequence[int]] = ours.ready["prompts"]
        peers = {}
        if not options.no_peer:
            for mode in ("plain", *MODES):
                peers[mode] = stack.enter_context(closing(_child("llama.cpp", model, options.threads, mode)))
        for _ in range(options.repetitions):
            for task, prompt in prompts.items():
                ask = {"prompt": prompt, "tokens": options.tokens}
                taken = {f"qchat {'spec' if spec else 'plain'}": ours.ask(**ask, spec=spec) for spec in (False, True)}
                taken |= {f"llama.cpp {mode}": peer.ask(**ask) for mode, peer in peers.items()}
                for name, reading in taken.items():
                    readings.setdefault(name, {}).setdefault(task, []).append(reading)
        return {"readings": readings, "repeating": ours.ready["repeating"]}


def _child(name: str, model: Path, threads: int, mode: str = "") -> Child:
    arguments = [name, str(model), str(threads), mode]
    return Child(f"{name} {mode}", __file__, arguments, {"QCHAT_HOME": str(home_of(ROOT))})


def report(title: str, found: Mapping[str, Any]) -> None:
    readings = found["readings"]
    modes = [name for name in readings if not name.endswith(" plain")]
    tasks = list(readings["qchat plain"])
    print(f"\n{title}\n{'':14}" + "".join(f"{mode:>19}" for mode in modes) + "  tokens a step  identical")
    gains: dict[str, list[float]] = {mode: [] for mode in modes}
    for task in tasks:
        line = f"{task:14}"
        for mode in modes:
            plain = readings[f"{mode.split()[0]} plain"][task]
            pairs = zip(readings[mode][task], plain, strict=True)
            gains[mode].append(statistics.median(a["tok_s"] / b["tok_s"] for a, b in pairs))
            line += f"{gains[mode][-1]:19.2f}"
        spec, plain = readings["qchat spec"][task], readings["qchat plain"][task]
        step = statistics.median(reading["tokens_per_step"] for reading in spec)
        same = all(reading["ids"] == plain[0]["ids"] for reading in spec + plain)
        print(f"{line}{step:15.2f}{same!s:>11}")
    print(f"{'geometric mean':14}" + "".join(f"{statistics.geometric_mean(gains[mode]):19.2f}" for mode in modes))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--no-peer", action="store_true", help="without llama.cpp")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every reading there")
    options = parser.parse_args()
    everything = {}
    for name in options.models:
        path = SHORT[name] if name in SHORT else model_path(name) if name == "smollm2-q4_1" else Path(name)
        everything[name] = measure(path, options)
        report(f"{path.name}, {options.threads} threads", everything[name])
    if options.json:
        options.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--serve"]:
        engine, file, thread_count, peer_mode = sys.argv[2:]
        os.environ.setdefault("QCHAT_HOME", str(home_of(ROOT)))
        if engine == "qchat":
            qchat = _QChat(file, int(thread_count))
            serve({"prompts": qchat.prompts, "repeating": qchat.repeating}, qchat.work)
        else:
            serve({}, _LlamaCpp(file, int(thread_count), peer_mode).work)
    else:
        main()
