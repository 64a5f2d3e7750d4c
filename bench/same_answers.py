"""That speculation changes no answer: many prompts, greedy and drawn, with it and without.

    python bench/same_answers.py MODEL ... [--prompts 200] [--tokens 24] [--threads 2]

MODEL is a GGUF file with a chat template, or smollm2-q4_1 or tiny-qwen3. Each prompt is answered greedily and with five
seeds at temperatures 0.7 and 1.2, plainly and with speculation. Compared are the tokens, and for greedy answers a hash
of every row of logits that was drawn from.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from models import model_path
from peer_qchat import ROOT

sys.path.insert(0, str(ROOT))

from app.backends.prompting import Prompter
from app.engine.generate import GenerationSettings, Generator
from app.engine.model import load_model
from app.engine.sampling import SamplingParams
from app.engine.speculation.speculator import Speculator
from app.templates.render import Conversation

SHORT = {"tiny-qwen3": ROOT / "tests" / "data" / "tiny-qwen3-q8_0.gguf"}
FORMS = (
    "List ten facts about {}.", "Repeat three times: {} and the sea, the sea and {}.", "Write a poem about {}.",
    "Explain {} to a child.", "Write a Python function about {}.", "Make a table about {} with three columns.",
    "Write JSON that describes {}.", "Translate into French: I like {}, and {} likes me.", "What is the use of {}?",
    "Count from one to twenty, and after each number say {}.",
)  # fmt: skip
SUBJECTS = (
    "bread", "rivers", "a lighthouse", "music", "snow", "the moon", "bicycles", "tea", "a library", "bees", "glass",
    "winter", "a harbour", "trees", "salt", "clocks", "a garden", "wool", "mountains", "rain",
)  # fmt: skip
SEEDS, TEMPERATURES = range(5), (0.7, 1.2)


class Hashing:
    """A decoder that notes the logits of each row it hands out."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.rows: dict[int, str] = {}  # by the length of what is before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    def forward(self, tokens: Sequence[int], n_logits: int) -> Any:
        logits = self._decoder.forward(tokens, n_logits)
        for back, row in enumerate(reversed(logits)):
            self.rows[self._decoder.length - back] = hashlib.sha256(np.ascontiguousarray(row)).hexdigest()
        return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    questions = [form.format(*[subject] * 2) for subject, form in itertools.product(SUBJECTS, FORMS)][: options.prompts]
    differing = 0
    for name in options.models:
        path = SHORT.get(name) or (model_path(name) if name == "smollm2-q4_1" else Path(name))
        differing += compare(name, path, questions, options)
    sys.exit(1 if differing else 0)


def compare(name: str, path: Path, questions: Sequence[str], options: argparse.Namespace) -> int:
    """Print what was compared; how many answers differ."""
    model = load_model(path, threads=options.threads, n_ctx=2048, notify=lambda text: print(text, file=sys.stderr))
    prompter = Prompter(model.metadata, model.tokenizer)
    decoder: Any = Hashing(model.decoder)
    speculator = Speculator()  # one for all answers, so that it knows much to guess from
    draws = [SamplingParams(temperature=0)]
    draws += [SamplingParams(temperature=t, seed=seed) for t in TEMPERATURES for seed in SEEDS]
    answers = differing = drafted = accepted = 0
    for question in questions:
        ids = prompter.chat(Conversation([{"role": "user", "content": question}])).ids
        for params in draws:
            settings = GenerationSettings(params, options.tokens)
            found = []
            for speculating in (False, True):
                decoder.truncate(0)
                generator = Generator(decoder, model.tokenizer, speculator if speculating else None)
                decoder.rows.clear()
                tokens = [piece.token_id for piece in generator.stream(ids, settings)]
                rows = [decoder.rows[len(ids) + i] for i in range(generator.usage.generated_tokens)]
                found.append((tokens, rows if params.temperature == 0 else None))
            usage = generator.usage
            answers, drafted, accepted = answers + 1, drafted + usage.drafted_tokens, accepted + usage.accepted_tokens
            differing += found[0] != found[1]
    prompter.close()
    model.close()
    print(
        f"{name}: {answers} answers of up to {options.tokens} tokens, {differing} differ; "
        f"{drafted} tokens drafted, {accepted} accepted",
        flush=True,
    )
    return differing


if __name__ == "__main__":
    main()
