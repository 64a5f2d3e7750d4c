"""The engine of this process as a backend: renders and encodes, generates in a thread, hands out events."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from app.backends.base import (
    ChatRequest,
    Done,
    Event,
    FinishReason,
    Generated,
    Notice,
    Progress,
    PromptPiece,
    Usage,
)
from app.backends.context import Message, answer_room, fit
from app.backends.handover import Handover, handed_out
from app.backends.prompting import Prompt, Prompter
from app.backends.reply_events import Emit, ReplyEvents
from app.engine.generate import GenerationSettings, Generator
from app.engine.sampling import SamplingParams, default_sampling
from app.engine.speculation.speculator import Speculator
from app.hub import Library, ensure_model, library_of_this_machine
from app.settings import SamplingSettings, Settings
from app.templates.isolation import Renderer
from app.templates.render import Conversation, continues_thinking, starts_in_thinking

if TYPE_CHECKING:
    from app.engine.model import LoadedModel

# Between two tokens the engine needs Python's lock for a moment, and whoever holds it, as a screen that is being drawn
# does, keeps it for so long: with Python's own 5 ms a small model loses a quarter of its speed inside the app.
SWITCH_INTERVAL_S = 0.0001


def open_local(settings: Settings, report: Callable[[Progress | Notice], None]) -> LocalBackend:
    """Find the model (the starter is fetched on a first run), load it, and return its backend. Raises QChatError."""
    if settings.device == "cuda":
        from app.engine.cuda.find import open_gpu  # noqa: PLC0415 - what is missing is said before a model is fetched

        open_gpu()

    def progress(stage: str, done: int, total: int | None) -> None:
        report(Progress(stage, done, total))

    def notify(text: str) -> None:
        report(Notice(text))

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    library = library_of_this_machine(settings)
    path = ensure_model(settings.model, library, progress, notify)
    renderer = Renderer()
    renderer.start()  # beside the loading
    from app.engine.model import load_configured  # noqa: PLC0415 - slow; not before the model is known to exist

    model = load_configured(
        settings,
        path,
        on_progress=lambda _stage, done, total: progress("loading the model", done, total),
        notify=notify,
    )
    name = library.get(settings.model).name
    return LocalBackend(model, name, library, renderer, speculation=settings.speculation)


class LocalBackend:
    """One loaded model. A second chat waits until the first has ended."""

    name = "local"

    def __init__(
        self, model: LoadedModel, model_name: str, library: Library, renderer: Renderer | None = None, *,
        speculation: bool = True,
    ) -> None:  # fmt: skip
        self.model = model_name
        self.facts: Mapping[str, Any] = {
            "load_s": model.load_s,
            "ctx": model.decoder.n_ctx,
            "device": model.device,
            "isa": model.isa,
            "threads": model.threads,
            "kv": model.kv,
            "resident_bytes": model.resident_bytes,
            "notes": list(model.notes),
        }
        self._model = model
        self._library = library
        self._prompter = Prompter(model.gguf.metadata, model.tokenizer, renderer)
        self._generator = Generator(model.decoder, model.tokenizer, Speculator() if speculation else None)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="qchat-engine")

    async def models(self) -> Sequence[str]:
        """The models on this disk."""
        return [entry.name for entry in self._library.list()]

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """See `Backend.chat`. Closing waits until the engine has stopped, so the next chat finds it at rest."""
        events: Handover[Event | BaseException | None] = Handover()
        closed = threading.Event()

        def work() -> None:
            try:
                self._answer(request, events.put, closed)
            except BaseException as error:
                events.put(error)
            finally:
                events.put(None)

        working = asyncio.get_running_loop().run_in_executor(self._worker, work)
        running = True
        try:
            async for event in handed_out(events):
                yield event
            running = False
        finally:
            if running:
                closed.set()
                self._generator.cancel()
            await asyncio.shield(working)

    async def prompt(self, request: ChatRequest) -> Sequence[PromptPiece]:
        """See `Backend.prompt`."""

        def make() -> Sequence[PromptPiece]:
            tokenizer = self._model.tokenizer
            stretches = itertools.groupby(self._fitted_prompt(request, lambda _: None).ids, tokenizer.is_control)
            return [PromptPiece(tokenizer.decode(ids), control) for control, ids in stretches]

        return await asyncio.get_running_loop().run_in_executor(self._worker, make)

    def stand_aside(self, wanted: bool) -> None:
        """See `SharesCores`."""
        self._model.stand_aside(wanted)

    async def close(self) -> None:
        """Stop what runs and give the model's memory back."""
        self._generator.cancel()
        self._worker.shutdown()
        self._prompter.close()
        self._model.close()

    def _answer(self, request: ChatRequest, emit: Emit, closed: threading.Event) -> None:
        """One reply, on the worker thread: every event of it, Done last."""
        prompt = self._fitted_prompt(request, emit)
        settings = GenerationSettings(self._sampling(request), request.max_tokens)
        in_thinking = starts_in_thinking(prompt.text) or continues_thinking(_conversation(request, request.messages))
        reply = ReplyEvents(in_thinking, request.stop, emit)
        pieces = self._generator.stream(
            prompt.ids, settings, lambda done, total: emit(Progress("reading the prompt", done, total))
        )
        answer_ids = []
        if closed.is_set():  # closed before the stream began, which a cancel does not reach
            return
        for piece in pieces:
            if piece.token_id is not None:
                answer_ids.append(piece.token_id)
                emit(Generated(len(answer_ids)))
            reply.push(piece.text)
            if reply.stopped:
                self._generator.cancel()  # ends the stream within one step, with its usage complete
        reply.flush()
        if self._generator.looping:
            emit(Notice("the reply only repeated itself and was ended"))
        reason: FinishReason = "stop" if reply.stopped else self._generator.finish_reason or "error"
        emit(Done(reason, Usage(**dataclasses.asdict(self._generator.usage)), prompt.ids, answer_ids))

    def _fitted_prompt(self, request: ChatRequest, emit: Emit) -> Prompt:
        n_ctx = self._model.decoder.n_ctx
        raw = request.raw_prompt
        if raw is not None:
            return fit([], lambda _: self._prompter.raw(raw), n_ctx, 0)[0]

        def make_prompt(messages: Sequence[Message]) -> Prompt:
            return self._prompter.chat(_conversation(request, messages))

        prompt, left_out = fit(request.messages, make_prompt, n_ctx, answer_room(request.max_tokens, n_ctx))
        if left_out:
            emit(Notice(f"the context of {n_ctx:,} tokens is full; messages left out, the oldest first: {left_out}"))
        if request.thinking and "enable_thinking" not in self._prompter.template.source:
            emit(Notice("this model's template has no thinking switch, so --think changes nothing"))
        return prompt

    def _sampling(self, request: ChatRequest) -> SamplingParams:
        """The model's own values, and over them what the person chose."""
        own = default_sampling(self._model.gguf.metadata, thinking=request.thinking is not False)
        return dataclasses.replace(own, **_chosen(request.sampling))


def _conversation(request: ChatRequest, messages: Sequence[Message]) -> Conversation:
    variables = {} if request.thinking is None else {"enable_thinking": request.thinking}
    return Conversation(messages, request.tools, variables=variables, continue_last=request.continue_last)


def _chosen(sampling: SamplingSettings) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(sampling).items() if value is not None}
