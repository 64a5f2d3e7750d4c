"""The commands about the settings of the chat: its model, system prompt, thinking and sampling."""

from __future__ import annotations

import asyncio

from app.chat.chat_settings import read_change, short_name
from app.chat.text import well_formed
from app.cli.progress import human_bytes
from app.cli.table import print_table
from app.errors import UsageError, printable
from app.hub.catalogue import load_catalogue
from app.hub.library import library_of_this_machine
from app.settings import LOCAL, OWN
from app.ui.repl.desk import Desk

_SERVER_WITHIN_S = 4.0
EMPTY = '""'  # how an empty text is written


class SettingCommands:
    """A method for each action, named for it; each gets what follows the slash command."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def action_choose_model(self, argument: str) -> None:
        if not argument:
            self._list_models()
            await self._list_servers()
            return
        change = {"model": well_formed(argument)}
        wanted = self._desk.chat.settings_with(change)
        if wanted.backend == LOCAL:
            library_of_this_machine().find(wanted.model)  # says what to do if it is not there
        self._desk.chat.change_settings(change)
        self._desk.say(f"model: {printable(wanted.named(wanted.model), 300)}")

    async def action_settings(self, _argument: str) -> None:
        """Every setting, its value and who decided it."""
        settings = self._desk.chat.settings
        own = self._desk.chat.session.settings
        rows = []
        for key, value in settings.items():
            source = settings.sources[key]
            if source == "command line" and key in own and own[key] == value:
                source = "this chat"
            rows.append((key, str(value).lower() if isinstance(value, bool) else str(value), source))
        print_table(("SETTING", "VALUE", "FROM"), rows)

    async def action_set(self, argument: str) -> None:
        """Without a value, the setting is given back to the environment and files."""
        name, _, value = argument.partition(" ")
        if not name:
            raise UsageError("set what?", "/set NAME VALUE, as in /set temperature 0.5; /settings lists them")
        self._change(name, value.strip())

    async def action_system(self, argument: str) -> None:
        """Without a text the present one is shown, and put before the person where that is possible."""
        desk = self._desk
        present = desk.chat.settings.system
        if argument:
            self._change("system", "" if argument == EMPTY else argument)
        elif present and desk.source and desk.source.edits and "\n" not in present:
            desk.draft = f"/system {present}"
        else:
            desk.write([present or "(no system prompt)"])
            desk.say(f"/system TEXT sets it, and /system {EMPTY} empties it")

    async def action_think(self, argument: str) -> None:
        if argument not in ("on", "off", OWN):
            hint = "/think on, /think off, or /think model for what it does by itself"
            raise UsageError("let the model think?", hint)
        self._change("thinking", argument)

    def _change(self, name: str, text: str) -> None:
        changes = read_change(name, well_formed(text))
        self._desk.chat.change_settings(changes)
        now = dict(self._desk.chat.settings.items())
        for key in changes:
            self._desk.say(f"{short_name(key)} = {printable(str(now[key]), 400)}")

    def _list_models(self) -> None:
        settings = self._desk.chat.settings
        used = settings.named(settings.model)
        here = library_of_this_machine().list()
        rows = [("*" if entry.name == used else "", entry.name, human_bytes(entry.size), "") for entry in here]
        names = {entry.name for entry in here}
        rows += [
            ("*" if e.name == used else "", e.name, f"~{human_bytes(e.bytes)}", f"'qchat models pull {e.name}'")
            for e in load_catalogue().values()
            if e.name not in names
        ]
        print_table(("", "NAME", "SIZE", "NOT HERE"), rows)
        if not any(row[0] for row in rows):
            self._desk.say(f"this chat's model is {printable(used, 300)}")

    async def _list_servers(self) -> None:
        """Ask every server for its models, all at once."""
        settings = self._desk.chat.settings
        if not settings.servers:
            return
        from app.backends.probe import look_at_server  # noqa: PLC0415 - where there are servers

        looks = [look_at_server(settings, name, _SERVER_WITHIN_S, try_it=False) for name in settings.servers]
        rows = []
        for look in await asyncio.gather(*looks):
            used = settings.model if look.name == settings.backend else None
            rows += [("*" if model == used else "", f"{look.name}/{model}", look.at) for model in look.models or ()]
            if look.problem:
                rows.append(("", f"{look.name}/", f"{look.state}: {look.problem}"))
        print_table(("", "NAME", "AT"), rows)
