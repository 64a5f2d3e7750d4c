"""What stands in place of a chat that has no message yet: what will answer, and the keys to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Center, Vertical
from textual.content import Content
from textual.widgets import Static

from app.cli.terminal import escape_controls
from app.errors import ModelNotFoundError
from app.settings import LOCAL, Settings
from app.ui.names import shown_key, shown_model

if TYPE_CHECKING:
    from app.hub import Library

_KEYS = ("help", "choose_model", "sessions", "search", "settings", "quit")


class Welcome(Vertical):
    """`keymap` has the keys of every action."""

    DEFAULT_CSS = """
    Welcome {
        height: 1fr;
        align-vertical: middle;
        color: $text-muted;
        #welcome-title { width: auto; text-style: bold; color: $text-primary; }
        #welcome-model { max-width: 72; text-align: center; margin: 1 2; }
        #welcome-keys { width: auto; }
    }
    """

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__(id="welcome")
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        yield Center(Static("qchat", id="welcome-title"))
        yield Center(Static(id="welcome-model"))
        yield Center(Static(self._keys(), id="welcome-keys"))

    def tell_model(self, settings: Settings, library: Library) -> None:
        """Tell what the first question to the model of `settings` will do."""
        if settings.backend == LOCAL:
            text = _about_model(settings.model, library, self._key("choose_model") or "/model")
        else:
            text = _about_server(settings)
        self.query_one("#welcome-model", Static).update(Content(text))

    def _keys(self) -> Content:
        lines = [Content.assemble(("/".rjust(7), "$text-accent"), "  commands, as you type")]
        titles = {
            "help": "all keys and commands",
            "choose_model": "choose a model",
            "sessions": "your chats",
            "search": "search in all chats",
            "settings": "settings of this chat",
            "quit": "leave",
        }
        lines += [
            Content.assemble((self._key(each).rjust(7), "$text-accent"), f"  {titles[each]}")
            for each in _KEYS
            if self._keymap[each]
        ]
        return Content("\n").join(lines)

    def _key(self, action_id: str) -> str:
        return shown_key(self._keymap[action_id].partition(",")[0])


def _about_server(settings: Settings) -> str:
    table = settings.servers.get(settings.backend)
    where = f"The server {table.name} at {table.shown_url}" if table else f"The backend {settings.backend}"
    model = shown_model(settings.named(settings.model)) if settings.model else "it"
    return escape_controls(f"Ask {model} something below. {where} answers, and what you write goes there.")


def _about_model(name: str, library: Library, key: str) -> str:
    from app.hub import first_fetch  # noqa: PLC0415 - as its caller, when the first picture is there

    if first := first_fetch(name, library):
        return (
            f"There is no model on this disk yet. Your first question fetches the starter {first.name} "
            f"({first.bytes / 1e6:.0f} MB, {first.licence}) from {first.origin}; it is tiny and "
            f"knows little. {key} chooses another."
        )
    try:
        library.find(name)
    except ModelNotFoundError as error:
        told = f"{error.message[0].upper()}{error.message[1:]}"
        return escape_controls(f"{told}. {key} fetches it or chooses another.")
    return escape_controls(f"Ask {shown_model(name)} something below. It runs on this machine, and nothing leaves it.")
