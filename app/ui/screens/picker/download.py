"""One download of the model picker: what is fetched, how far it is, and how it ended.

The transfer runs in a thread of the screen; nothing here touches the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import DownloadError, QChatError
from app.hub.choices import Choice
from app.hub.download import Download as Fetching
from app.hub.library import Library, ModelEntry
from app.hub.transfer import Cancelled, Transfer


@dataclass(frozen=True)
class Outcome:
    """How a download ended: with a model, an error, or neither because it was stopped."""

    entry: ModelEntry | None = None
    error: QChatError | None = None


class Download:
    """The download of `choice`; `report` is called in its thread."""

    def __init__(self, choice: Choice, library: Library, report: Callable[[Transfer], None]) -> None:
        self.choice = choice
        self.transfer: Transfer | None = None  # as it was shown last
        self.verdict = ""  # what was said of the file: whether its SHA-256 was verified
        self._fetching = Fetching(choice.name, library, report, self._keep)

    def run(self) -> Outcome:
        """Fetch the model; returns when it is there, has failed or was stopped."""
        try:
            return Outcome(entry=self._fetching.run())
        except Cancelled:
            return Outcome()
        except QChatError as error:
            return Outcome(error=error)
        except OSError as error:
            return Outcome(error=DownloadError(f"the models folder cannot be written: {error.strerror}"))

    @property
    def paused(self) -> bool:
        """Whether it waits for `pause_or_resume`."""
        return self._fetching.paused

    def pause_or_resume(self) -> None:
        """Take nothing more from the network, or go on."""
        if self._fetching.paused:
            self._fetching.resume()
        else:
            self._fetching.pause()

    def stop(self) -> None:
        """Have `run` return soon; what came so far is kept where it can be gone on with."""
        self._fetching.cancel()

    def _keep(self, said: str) -> None:
        self.verdict = said
