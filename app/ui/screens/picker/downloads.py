"""Fetching a model from the picker: one download at a time, in a thread that only posts how far it is. What a stopped
one has left on the disk can be removed, too."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on, work
from textual.content import Content
from textual.message import Message

from app.cli.progress import human_bytes
from app.errors import QChatError
from app.hub.choices import Choice
from app.hub.download.kept import remove_parts
from app.hub.transfer import Transfer
from app.ui.screens.dialog import Confirm
from app.ui.screens.picker.detail import failure
from app.ui.screens.picker.download import Download, Outcome
from app.ui.screens.picker.repositories import Repositories
from app.ui.screens.picker.text import shown_name


class Downloads(Repositories):
    """A download runs until its model is there, it fails or it is stopped."""

    @dataclass
    class Moved(Message):
        """A download went on."""

        transfer: Transfer

    @dataclass
    class Ended(Message):
        """A download is over."""

        outcome: Outcome

    def on_unmount(self) -> None:
        """A download does not outlive the screen that shows it."""
        self.action_stop()

    def action_stop(self) -> None:
        """Stop the download that runs."""
        if self._models.download:
            self._models.download.stop()

    def action_remove(self) -> None:
        """Remove what is here of the model at the cursor, once a person has said yes."""
        choice = self._models.at
        assert choice is not None
        total = f" of {human_bytes(choice.size)}" if choice.size else ""
        question = Confirm(
            "Remove this download?",
            f"{human_bytes(choice.done)}{total} of {shown_name(choice)} are here. Fetching it later begins anew.",
        )
        self.app.push_screen(question, lambda yes: self._remove(choice) if yes else None)

    def _remove(self, choice: Choice) -> None:
        try:
            gone = remove_parts(self._library, choice.label)
        except QChatError as error:
            self._said[choice.key] = failure(error)
        else:
            self._said.pop(choice.key, None)
            freed = f"{human_bytes(sum(part.n_bytes for part in gone))} are free again"
            stays = f"{shown_name(choice)} is being fetched by another qchat and stays"
            self.notify(freed if gone else stays, markup=False)
        self._read_library()
        self._show(next((row.key for row in self._models.choices if row.name == choice.name), None))

    def _start(self, choice: Choice) -> None:
        download = Download(choice, self._library, self._report)
        self._models.download = download
        self._said.pop(choice.key, None)
        self._models.failed.discard(choice.key)
        self._redraw()
        self._fetch(download)

    def _report(self, transfer: Transfer) -> None:
        self.post_message(self.Moved(transfer))

    @work(thread=True, group="download")
    def _fetch(self, download: Download) -> None:
        self.post_message(self.Ended(download.run()))

    @on(Moved)
    def _moved(self, message: Moved) -> None:
        if self._models.download:
            self._models.download.transfer = message.transfer
            self._models.redraw()
            self._hint()

    @on(Ended)
    def _ended(self, message: Ended) -> None:
        download, outcome = self._models.download, message.outcome
        assert download is not None
        key, self._models.download = download.choice.key, None
        if outcome.entry is not None:
            self.remove_class("-first-run")
            if download.choice.place == "offer":  # the filter is the repository's name, which the model has not
                self._shelf.forget_offers()
                self._clear_filter()
            self._read_library()
            key = next(row.key for row in self._models.choices if row.path == outcome.entry.path)
            self._verdicts[key] = download.verdict
        elif outcome.error is not None:
            self._models.failed.add(key)
            self._said[key] = failure(outcome.error)
        else:
            self._read_library()  # what came is a row of its own now
            half = (row for row in self._models.choices if row.place == "unfinished")
            key = next((row.key for row in half if row.name == download.choice.name), key)
            name = shown_name(download.choice)
            self._said[key] = Content(f"The download of {name} was stopped; Enter goes on with it.")
        self._show(key)
