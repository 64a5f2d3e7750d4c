"""What Tab completes: slash commands, and what may follow each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from app.chat.chat_settings import CHAT_SETTINGS, short_name
from app.hub.catalogue import load_catalogue
from app.hub.library import library_of_this_machine
from app.settings import RULES, load_settings
from app.ui.actions import slash_commands

_THINKING = ("on", "off", "model")


class CommandCompleter(Completer):
    """Completes a draft that is one line and begins with a slash. `titles` are those of the chats."""

    def __init__(self) -> None:
        self.titles: Sequence[str] = ()
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in document.text:
            return
        command, space, argument = text.partition(" ")
        if not space:
            yield from _beginning(command, [f"/{a.slash}{' ' if a.argument else ''}" for a in slash_commands()])
        elif command in ("/attach", "/export"):
            yield from self._files.get_completions(Document(argument), complete_event)
        else:
            yield from _beginning(argument, self._arguments(command, argument))

    def _arguments(self, command: str, argument: str) -> Sequence[str]:
        match command:
            case "/open":
                return [title for title in self.titles if title]
            case "/model":
                names = {entry.name for entry in library_of_this_machine().list()} | set(load_catalogue())
                return [*sorted(names), *(f"{table.name}/{table.model}" for table in load_settings().servers.values())]
            case "/think":
                return _THINKING
            case "/set":
                name, space, _ = argument.partition(" ")
                if space:
                    rule = RULES.get(name) or RULES.get(f"sampling.{name}")
                    return [f"{name} {choice}" for choice in (rule.choices if rule else ())]
                return [short_name(key) for key in CHAT_SETTINGS]
            case _:
                return ()


def _beginning(typed: str, choices: Iterable[str]) -> Iterable[Completion]:
    return (
        Completion(choice, start_position=-len(typed)) for choice in choices if choice.lower().startswith(typed.lower())
    )
