"""A download that somebody watches and steers: how far it is, and the switches that pause, resume and cancel it."""

from __future__ import annotations

from collections.abc import Callable

from app.hub.download.gather import Notify, pull
from app.hub.library import Library, ModelEntry
from app.hub.transfer import Transfer, TransferMeter


class Download:
    """The download of `source` (see `hub.source.FORMS`) into `library`.

    `report` gets a `Transfer` at most ten times a second and `notify` a sentence that a person should read, both in the
    thread of `run`. The other methods may be called from any thread, before `run` too.
    """

    def __init__(
        self,
        source: str,
        library: Library,
        report: Callable[[Transfer], None],
        notify: Notify = lambda _: None,
    ) -> None:
        self.source = source
        self._library = library
        self._meter = TransferMeter(report)
        self._notify = notify

    def run(self) -> ModelEntry:
        """Fetch the model and return its entry. Raises what `pull` raises: QChatError, or Cancelled."""

        def notify(text: str) -> None:
            self._meter.notify(text)
            self._notify(text)

        return pull(self.source, self._library, self._meter, notify)

    @property
    def paused(self) -> bool:
        """Whether it waits for `resume`."""
        return self._meter.paused

    def pause(self) -> None:
        """Take nothing more from the network until `resume`."""
        self._meter.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._meter.resume()

    def cancel(self) -> None:
        """Have `run` raise `Cancelled` within a second. What came so far is kept where it can be gone on with."""
        self._meter.cancel()
