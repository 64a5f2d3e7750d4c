"""A download that somebody watches and steers: how far it is, and the switches that pause, resume and cancel it."""

from __future__ import annotations

from collections.abc import Callable

from app.hub.download.gather import steered_pull
from app.hub.download.options import Options, configured
from app.hub.library import Library, ModelEntry
from app.hub.transfer import Notify, Steering, Transfer


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
        options: Options | None = None,
    ) -> None:
        self.source = source
        self._library = library
        self._steering = Steering(report)
        self._notify = notify
        self._options = options

    def run(self) -> ModelEntry:
        """Fetch the model and return its entry. Raises what `pull` raises: QChatError, or Cancelled."""
        options = self._options or configured()
        return steered_pull(self.source, self._library, self._steering, self._notify, options)

    @property
    def paused(self) -> bool:
        """Whether it waits for `resume`."""
        return self._steering.paused

    def pause(self) -> None:
        """Take nothing more from the network until `resume`."""
        self._steering.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._steering.resume()

    def cancel(self) -> None:
        """Have `run` raise `Cancelled` within a second. What came so far is kept where it can be gone on with."""
        self._steering.cancel()
