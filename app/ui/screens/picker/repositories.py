"""Asking the hub what a repository offers, in a thread, and showing it as rows of the picker."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on, work
from textual.content import Content
from textual.message import Message

from app.errors import QChatError
from app.hub.catalogue.repository import Repository, look
from app.hub.choices import Choice
from app.ui.screens.picker.detail import failure
from app.ui.screens.picker.view import PickerView


class Repositories(PickerView):
    """One repository is asked for at a time."""

    @dataclass
    class Listed(Message):
        """The hub has told what a repository offers, or why it does not."""

        choice: Choice
        answer: Repository | QChatError

    def _ask(self, choice: Choice) -> None:
        if not self._asking:
            self._asking = choice.name
            self._said.pop(choice.key, None)
            self._redraw()
            self._look(choice)

    @work(thread=True, group="ask")
    def _look(self, choice: Choice) -> None:
        try:
            self.post_message(self.Listed(choice, look(choice.name.removeprefix("hf:"), self._shelf.free)))
        except QChatError as error:
            self.post_message(self.Listed(choice, error))

    @on(Listed)
    def _listed(self, message: Listed) -> None:
        self._asking = ""
        key: str | None = message.choice.key
        if isinstance(message.answer, QChatError):
            self._said[message.choice.key] = failure(message.answer)
        else:
            offers = self._shelf.offer(message.answer)
            key = next((offer.key for offer in offers if offer.usable), None)
            if not offers:
                self._said[message.choice.key] = Content(f"{message.answer.name} has no .gguf file to fetch.")
                self._shelf.forget_offers()
                key = message.choice.key
        self._models.choices = self._shelf.rows(self._models.wanted)
        self._show(key)
