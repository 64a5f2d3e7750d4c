"""`qchat prompt`: the exact text and token ids that a conversation becomes, to look at or to compare.

Reads a model file's header and vocabulary, never its weights, so it answers at once for a model of any size. What reads
and renders is imported when it is needed, so that help and completion stay instant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from app.cli.options import model_option, setting_flags
from app.cli.terminal import escape_controls, write_json
from app.errors import TemplateError, UsageError, printable
from app.hub.library import library_of_this_machine
from app.settings import load_settings

if TYPE_CHECKING:
    from app.templates.render import Conversation

_FIELDS = ("messages", "tools", "documents", "add_generation_prompt")

Show = Callable[["Conversation"], dict[str, Any]]


@click.command()
@click.argument("conversation", type=click.File("rb"))
@model_option
@click.option("--template", type=click.File("rb"), help="A Jinja template file in place of a model; no ids then.")
@click.option("--json", "as_json", is_flag=True, help="Text, token ids, and which of them are control tokens.")
@click.pass_context
def prompt(ctx: click.Context, /, conversation: IO[bytes], template: IO[bytes] | None, as_json: bool, **_: Any) -> None:
    """Show the exact prompt text and token ids of a conversation.

    CONVERSATION is a JSON file ("-" for standard input): {"messages": [...]} with, as wanted, "tools", "documents",
    "add_generation_prompt" (false unless given, as in transformers) and any template variable, such as
    "enable_thinking"; or a list of those.

    With --json there are "text", "ids" and "control" (for each id, whether it is a control token); a list gives a list,
    and a conversation that the template refuses is an entry with "error" and "line". Without --json the texts are
    printed exactly, with no newline added.
    """
    if template is not None and ctx.params["model"] is not None:
        raise UsageError("give a model or --template, not both")
    document = _read_json(conversation)
    conversations = [_conversation(entry) for entry in (document if isinstance(document, list) else [document])]
    if template is not None:
        show = _with_template(template.read().decode("utf-8", "replace"))
    else:
        show = _with_model(load_settings(setting_flags(ctx)).model)
    if as_json:
        entries = [_entry(show, conversation) for conversation in conversations]
        write_json(entries if isinstance(document, list) else entries[0])
        if not isinstance(document, list) and "error" in entries[0]:
            ctx.exit(1)
        return
    for each in conversations:
        text = show(each)["text"]
        sys.stdout.write(escape_controls(text) if sys.stdout.isatty() else text)  # click.echo would take out escapes


def _read_json(file: IO[bytes]) -> Any:
    try:
        return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{printable(file.name)} is not JSON: {printable(str(error), 120)}") from None


def _conversation(document: Any) -> Conversation:
    from app.templates.render import Conversation  # noqa: PLC0415

    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise UsageError(
            'a conversation is an object with a list of message objects under "messages"',
            '{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true}',
        )
    return Conversation(
        messages,
        document.get("tools"),
        document.get("documents"),
        document.get("add_generation_prompt", False),
        {name: value for name, value in document.items() if name not in _FIELDS},
    )


def _with_template(source: str) -> Show:
    from app.templates.isolation import IsolatedTemplate  # noqa: PLC0415

    template = IsolatedTemplate(source)

    def show(conversation: Conversation) -> dict[str, Any]:
        segments = template.render(conversation)
        return {"text": "".join(segment.text for segment in segments), "ids": None, "control": None}

    return show


def _with_model(name: str) -> Show:
    from app.backends.prompting import Prompter  # noqa: PLC0415
    from app.engine.gguf import read_model  # noqa: PLC0415
    from app.engine.tokenizer import Tokenizer  # noqa: PLC0415
    from app.templates.isolation import Renderer  # noqa: PLC0415

    renderer = Renderer()
    renderer.start()  # beside the reading of the vocabulary
    with read_model(library_of_this_machine().find(name)) as gguf:
        metadata: Mapping[str, Any] = gguf.metadata
    tokenizer = Tokenizer.from_metadata(metadata)
    prompter = Prompter(metadata, tokenizer, renderer)

    def show(conversation: Conversation) -> dict[str, Any]:
        made = prompter.chat(conversation)
        return {"text": made.text, "ids": made.ids, "control": [tokenizer.is_control(i) for i in made.ids]}

    return show


def _entry(show: Show, conversation: Conversation) -> dict[str, Any]:
    try:
        return show(conversation)
    except TemplateError as error:
        return {"error": error.message, "line": error.line}
