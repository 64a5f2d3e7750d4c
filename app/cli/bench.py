"""`qchat bench`: load, prompt and generation speed, beside the memory limit of the device in the same run.

The engine is imported when it is measured, so that help and completion stay instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from app.cli import suggest
from app.cli.options import engine_options, setting_flags
from app.cli.progress import ProgressLine
from app.cli.terminal import write_json
from app.hub import ensure_model, library_of_this_machine
from app.settings import load_settings

if TYPE_CHECKING:
    from app.engine.model import LoadedModel
    from app.engine.speculation_benchmark import TaskSpeeds

SPEC_TOKENS = 128  # the most in a reply to a task

HEAD = (("model", "model", "{}"), ("quantisation", "quantisation", "{}"), ("device", "device", "{}"))
OF_CPU = (
    ("threads", "threads", "{}"),
    ("isa", "instruction set", "{}"),
    ("stream_gb_s", "memory limit", "{:.1f} GB/s read by all threads"),
)
OF_GPU = (
    ("isa", "architecture", "{}"),
    ("stream_gb_s", "memory limit", "{:.1f} GB/s read by the whole GPU"),
)
ROWS = (
    ("load_s", "load", "{:.2f} s"),
    ("first_token_s", "first token", "{:.2f} s from the start of loading"),
    ("pp512_tok_s", "prompt", "{:.1f} tokens/s (512 tokens)"),
    ("tg128_tok_s", "generation", "{:.1f} tokens/s (128 tokens)"),
    ("tg128_share", "of the limit", "{:.0%}"),
    ("peak_rss_mb", "peak memory", "{:.0f} MB of this process"),
)


@click.command()
@click.argument("model", required=False, shell_complete=suggest.models_here)
@engine_options
@click.option("--repetitions", type=click.IntRange(1, 100), default=3, show_default=True, help="Medians are of these.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def bench(ctx: click.Context, /, model: str | None, repetitions: int, as_json: bool, **_: Any) -> None:
    """Measure load, prompt and generation speed on this machine.

    MODEL is named as in `ask -m`. Decoding reads every weight once a token, so its limit is the speed of reading
    memory, the CPU's or, with --device cuda or auto, the GPU's; both are measured in turn, and the share of the limit
    that was reached is shown.

    With --spec, everyday tasks are answered plainly and with speculation as well, and both speeds are shown: some
    minutes, for a model that has a chat template.
    """
    from app.engine.benchmark import measure  # noqa: PLC0415
    from app.engine.model import load_configured  # noqa: PLC0415
    from app.hub.describe import main_quantisation  # noqa: PLC0415

    flags = dict(setting_flags(ctx))
    settings = load_settings(flags | ({"model": model} if model else {}))
    if settings.device == "cuda":
        from app.engine.cuda.find import open_gpu  # noqa: PLC0415 - what is missing is said before a model is fetched

        open_gpu()
    library = library_of_this_machine(settings)
    with ProgressLine() as progress:
        path = ensure_model(settings.model, library, progress, progress.say)
        loaded = load_configured(settings, path, notify=progress.say)

        def tell(what: str) -> None:
            progress(what, 0, None)

        try:
            measured = measure(loaded, repetitions, tell)
            tasks = _speculation(loaded, repetitions, tell) if ctx.params["speculation"] else None
        finally:
            loaded.close()
    facts = {
        "model": library.get(settings.model).name,
        "quantisation": main_quantisation(loaded.gguf),
        "device": loaded.device,
        "threads": loaded.threads,
        "isa": loaded.isa,
        "notes": loaded.notes,
        **asdict(measured),
    }
    if tasks is not None:
        facts["speculation"] = [asdict(task) for task in tasks]
    if as_json:
        write_json(facts)
        return
    for key, label, form in (*HEAD, *(OF_CPU if loaded.device == "cpu" else OF_GPU), *ROWS):
        click.echo(f"{label:<16}{form.format(facts[key])}")
    for task in tasks or ():
        same = "" if task.identical else "; OTHER TOKENS THAN WITHOUT IT"
        click.echo(
            f"{task.task:<16}{task.plain_tok_s:.1f} tokens/s, with speculation {task.spec_tok_s:.1f}, "
            f"{task.ratio:.2f} times; {task.tokens_per_step:.1f} tokens a step{same}"
        )
    for note in loaded.notes:
        click.echo(f"note: {note}")


def _speculation(model: LoadedModel, repetitions: int, tell: Callable[[str], None]) -> Sequence[TaskSpeeds]:
    """Every task in turn, greedy. Raises TemplateError for a model without a chat template."""
    from app.backends.prompting import Prompter  # noqa: PLC0415
    from app.cli.bench_tasks import TASKS  # noqa: PLC0415
    from app.engine.sampling import SamplingParams  # noqa: PLC0415
    from app.engine.speculation_benchmark import compare  # noqa: PLC0415
    from app.templates.render import Conversation  # noqa: PLC0415

    prompter, greedy = Prompter(model.metadata, model.tokenizer), SamplingParams(temperature=0)
    try:
        prompts = [(task.name, prompter.chat(Conversation(task.messages)).ids) for task in TASKS]
    finally:
        prompter.close()
    return [
        compare(model, name, ids, tokens=SPEC_TOKENS, repetitions=repetitions, sampling=greedy, tell=tell)
        for name, ids in prompts
    ]
