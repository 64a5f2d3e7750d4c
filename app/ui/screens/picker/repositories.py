"""Asking the hub what a repository offers, in a thread, and showing it as rows of the picker."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on, work
from textual.content import Content
from textual.message import Message

from app.errors import QChatError
from app.hub.catalogue.repository import Repository, look
from app.hub.choices import Choice
from app.hub.transfer import Cancelled, Steering, Transfer
from app.ui.screens.picker.detail import failure
from app.ui.screens.picker.view import PickerView


class Repositories(PickerView):
    """One repository is asked for at a time. What comes after it was stopped is of no interest."""

    _steering: Steering | None = None  # of the question that is being asked

    @dataclass
    class Waited(Message):
        """The hub has not answered yet; `note` says why where that is known."""

        steering: Steering
        note: str

    @dataclass
    class Listed(Message):
        """The hub has told what a repository offers, or why it does not."""

        steering: Steering
        choice: Choice
        answer: Repository | QChatError

    def on_unmount(self) -> None:
        """Nobody is asked for a screen that is gone."""
        self._stop_asking()

    def _ask(self, choice: Choice) -> None:
        if not self._asking:
            self._asking, self._asking_note = choice.name, ""
            self._said.pop(choice.key, None)
            self._steering = steering = Steering(lambda step: self._report_wait(steering, step))
            self._redraw()
            self._look(choice, steering)

    def _stop_asking(self) -> None:
        if self._steering is not None:
            self._steering.cancel()
            self._asking, self._steering = "", None

    def _report_wait(self, steering: Steering, step: Transfer) -> None:
        self.post_message(self.Waited(steering, step.note))

    @work(thread=True, group="ask")
    def _look(self, choice: Choice, steering: Steering) -> None:
        try:
            answer: Repository | QChatError = look(choice.name.removeprefix("hf:"), self._shelf.free, steering)
        except QChatError as error:
            answer = error
        except Cancelled:
            return
        self.post_message(self.Listed(steering, choice, answer))

    @on(Waited)
    def _waited(self, message: Waited) -> None:
        if message.steering is self._steering and message.note != self._asking_note:
            self._asking_note = message.note
            self._hint()

    @on(Listed)
    def _listed(self, message: Listed) -> None:
        if message.steering is not self._steering:
            return
        self._asking, self._steering = "", None
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
