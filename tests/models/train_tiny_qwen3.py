"""Trains the tiny Qwen3 of the tests and writes its GGUF files. Run by hand, never in CI; needs PyTorch and jinja2.

    python -m tests.models.train_tiny_qwen3 --layers 2 --steps 900 --mixtures q8_0 --out two

tests/data/README.md has the runs that made the committed files. The text, the initial weights and the order of the
chats come from fixed seeds; the rounding of the sums depends on the machine, so a second run gives another model,
about as good.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tests.models.tiny_qwen3_chats import Chat, make_chat
from tests.models.tiny_qwen3_gguf import Shape, write_gguf
from tests.models.tiny_qwen3_network import MATRICES, TinyQwen3
from tests.models.tiny_qwen3_questions import LONG_TASKS, SHORT_TASKS
from tests.models.tiny_qwen3_tokenizer import ChatEncoder, EncodedChat, train_tokenizer

NOT_TAUGHT = -100


class Muon:
    """Momentum whose update is made orthogonal, for the matrices of the layers: https://kellerjordan.github.io/posts/muon/"""

    def __init__(self, matrices: list[nn.Parameter], momentum: float = 0.95, weight_decay: float = 0.05) -> None:
        self.matrices, self.momentum, self.weight_decay = matrices, momentum, weight_decay
        self._velocity = [torch.zeros_like(matrix) for matrix in matrices]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for matrix, velocity in zip(self.matrices, self._velocity, strict=True):
            velocity.lerp_(matrix.grad, 1 - self.momentum)
            update = _orthogonal(torch.lerp(matrix.grad, velocity, self.momentum))
            rows, columns = matrix.shape[-2:]
            matrix.mul_(1 - rate * self.weight_decay)
            matrix.add_(update, alpha=-rate * max(1.0, rows / columns) ** 0.5)


def _orthogonal(x: Tensor) -> Tensor:
    """Three odd polynomials of degree five towards the nearest orthogonal matrices; x is [n, rows, columns].

    The coefficients are the first of the Polar Express, https://arxiv.org/abs/2505.16932.
    """
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (1.02 * x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in ((8.2872, -23.5959, 17.3004), (4.1071, -2.9478, 0.5448), (3.9487, -2.9089, 0.5518)):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def batches(encoder: ChatEncoder, seed: int, n_tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (tokens, targets), each [batch, length] of about n_tokens; the target is NOT_TAUGHT outside replies.

    Chats of like length share a batch, so that little of it is padding; each begins at position 0.
    """
    rng = random.Random(seed)
    while True:
        chats = [encoder.encode(make_chat(rng)) for _ in range(2048)]
        chats.sort(key=lambda chat: len(chat.prompt) + len(chat.reply))
        groups: list[list[EncodedChat]] = [[]]
        for chat in chats:
            if (len(groups[-1]) + 1) * (len(chat.prompt) + len(chat.reply)) > n_tokens:
                groups.append([])
            groups[-1].append(chat)
        rng.shuffle(groups)
        yield from map(_padded, groups)


def _padded(chats: list[EncodedChat]) -> tuple[Tensor, Tensor]:
    length = max(len(chat.prompt) + len(chat.reply) for chat in chats) - 1
    tokens = torch.zeros(len(chats), length, dtype=torch.long)
    targets = torch.full((len(chats), length), NOT_TAUGHT)
    for row, chat in enumerate(chats):
        ids = torch.tensor(chat.prompt + chat.reply)
        tokens[row, : len(ids) - 1] = ids[:-1]
        taught = torch.tensor(chat.taught)
        targets[row, taught - 1] = ids[taught]
    return tokens, targets


def train(model: TinyQwen3, encoder: ChatEncoder, steps: int, seed: int, n_tokens: int, out: Path, peak: float) -> None:
    """Leaves the running average of the weights in the model, and saves it every 50 steps too."""
    muon = Muon([getattr(model, name) for name in MATRICES])
    norms = [p for name, p in model.named_parameters() if name.endswith("norm")]
    adam = torch.optim.Adam(
        [{"params": [model.embedding], "peak": 1e-2}, {"params": norms, "peak": 3e-3}], betas=(0.9, 0.95)
    )
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    source = batches(encoder, seed=seed, n_tokens=n_tokens)
    begun, smooth = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        progress = step / steps
        rate = peak * min(1.0, step / 20) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        tokens, targets = next(source)
        wanted = targets != NOT_TAUGHT
        logits = model(tokens, wanted, rounded=progress > 0.5 and step % 2 == 0)
        loss = F.cross_entropy(logits, targets[wanted])
        model.zero_grad()
        loss.backward()
        muon.step(0.02 * rate)
        for group in adam.param_groups:
            group["lr"] = group["peak"] * rate
        adam.step()
        with torch.no_grad():
            for name, p in model.named_parameters():
                average[name].lerp_(p, max(0.02, 10 / (step + 10)))
        smooth += max(0.05, 1 / step) * (loss.item() - smooth)
        if step % 25 == 0:
            print(f"step {step}: loss {smooth:.4f}, {time.monotonic() - begun:.0f} s", flush=True)
        if step % 50 == 0 or step == steps:
            torch.save(average, out.with_suffix(".pt"))
    model.load_state_dict(average, strict=False)


@torch.no_grad()
def exam(model: TinyQwen3, encoder: ChatEncoder, n: int = 24) -> dict[str, float]:
    """The share of fresh chats of each kind whose greedy reply is exactly the wanted one."""
    rng = random.Random(99)
    chats = {"all kinds": [make_chat(rng) for _ in range(8 * n)]}
    for task in SHORT_TASKS | LONG_TASKS:
        turns = [task(rng) for _ in range(n)]
        chats[task.__name__] = [Chat([{"role": "user", "content": t.question}], t.thinking, t.answer) for t in turns]
    return {kind: sum(_is_right(model, encoder.encode(chat)) for chat in of) / len(of) for kind, of in chats.items()}


def _is_right(model: TinyQwen3, chat: EncodedChat) -> bool:
    """Greedy decoding gives the reply exactly when the reply's every token is the likeliest after those before it."""
    tokens, targets = _padded([chat])
    targets[:, : len(chat.prompt) - 1] = NOT_TAUGHT
    wanted = targets != NOT_TAUGHT
    return bool((model(tokens, wanted).argmax(-1) == targets[wanted]).all())


def export(model: TinyQwen3, encoder: ChatEncoder, out: Path, mixtures: Sequence[str]) -> None:
    """Writes a file for each mixture and sits its exam with the weights as they came back from it."""
    weights = model.gguf_weights()
    for mixture in mixtures:
        path = out.with_name(f"{out.name}-{mixture}.gguf")
        write_gguf(path, model.shape, weights, encoder.tokenizer, mixture)
        copy = TinyQwen3(model.shape)
        copy.load_gguf(path)
        marks = exam(copy, encoder)
        below = {kind: round(mark, 2) for kind, mark in marks.items() if mark < 1}
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB; right in every reply but for {below}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the chats")
    parser.add_argument("--rate", type=float, default=1.0, help="the highest learning rates, as a share of the usual")
    parser.add_argument("--begin", type=Path, help="go on from these weights (.pt), of as many layers or fewer")
    parser.add_argument("--out", type=Path, default=Path("tests/data/tiny-qwen3"))
    parser.add_argument("--mixtures", default="q8_0,q4_0,q4_k")
    parser.add_argument("--export-only", action="store_true", help="write the files from the last saved weights")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = train_tokenizer(Shape.vocab_size)
    encoder = ChatEncoder(tokenizer)
    model = TinyQwen3(Shape(n_layers=options.layers, vocab_size=tokenizer.get_vocab_size()))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    begin = options.out.with_suffix(".pt") if options.export_only else options.begin
    if begin:
        model.begin_with(torch.load(begin))
    if not options.export_only:
        train(model, encoder, options.steps, options.seed, options.batch_tokens, options.out, options.rate)
    export(model, encoder, options.out, options.mixtures.split(","))


if __name__ == "__main__":
    main()
