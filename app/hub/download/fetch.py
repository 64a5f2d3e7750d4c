"""One file of a server becomes a complete, verified part: find out what the server has, then receive it."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

from app.errors import DownloadError, printable
from app.hub.download import hub_api
from app.hub.download.asking import Asking
from app.hub.download.connection import check_plain
from app.hub.download.failures import ChangedError, Failure
from app.hub.download.identity import Identity, sha256_in
from app.hub.download.receive import Receiving
from app.hub.download.refusal import refusal
from app.hub.download.retries import Retries
from app.hub.download.session import Remote, Session, Wanted
from app.hub.download.state import load
from app.hub.download.transport import Address, Answer

RESTARTS = 3  # of a file that changes while it comes
LISTED = 8  # names of other files that a message tells


class FileDownload:
    """`ask` the server about the file, then `receive` it. `before` and `whole` are the bytes of the model's other
    parts and of all of them, for the reports."""

    def __init__(self, wanted: Wanted, session: Session) -> None:
        self._wanted = wanted
        self._session = session
        self._patience = session.options.patience
        self._clock = session.options.clock
        self._retries = Retries(self._patience, session.transport)
        self._remote: Remote | None = None
        self.before = 0
        self.whole: int | None = None

    @property
    def size(self) -> int | None:
        """Bytes of the file, as far as the server has said."""
        return None if self._remote is None else self._remote.identity.size

    @property
    def here(self) -> int:
        """Bytes that an earlier pull left here."""
        found = load(self._wanted.part)
        return 0 if found is None else sum(stop - first for first, stop in found.done)

    def ask(self) -> None:
        """Find out which file the server has. Raises DownloadError and what the watcher raises."""
        remote = self._asking(self._retries).until_answered(self._look)
        identity = dataclasses.replace(remote.identity, sha256=self._sha256(remote.identity))
        self._remote = dataclasses.replace(remote, identity=identity, ranges=remote.ranges and identity.certain)

    def receive(self) -> str | None:
        """Fetch it, or what is missing of it; its verified SHA-256, None where nobody told what that has to be."""
        for _ in range(RESTARTS):
            if self._remote is None:
                self.ask()
            assert self._remote is not None
            try:
                return Receiving(
                    self._wanted, self._remote, self._session, self._retries, self._tell, self._whole_size()
                ).run()
            except ChangedError:
                self._session.notify(f"{self._wanted.name} was changed on the server meanwhile: it is fetched anew")
                self._remote = None
        raise DownloadError(
            f"{self._wanted.name} keeps changing on {self._wanted.address.host}", "try again when it is at rest"
        )

    def _look(self) -> Remote:
        """Ask for one byte, which tells the size, the validators and whether stretches can be asked for."""
        address = self._wanted.address
        with self._session.transport.get(address, 0, 0) as answer:
            if answer.status not in (200, 206, 416):
                raise self._refused(answer)
            if answer.status != 416:
                check_plain(answer)
        span = answer.span
        ranges = answer.status == 206 and span is not None and span.first == 0
        return Remote(address, answer.identity, ranges, self._refused)

    def _sha256(self, identity: Identity) -> str | None:
        """The published hash: the catalogue's, or that of the server, which must not be another one."""
        address, expected = self._wanted.address, self._wanted.sha256
        sha256 = identity.sha256 or (sha256_in(identity.etag) if address.repo else None)
        if address.repo and sha256 is None:
            sha256 = self._listed_sha256()
        if None not in (expected, sha256) and expected != sha256:
            raise DownloadError(
                f"{self._wanted.name} on {address.host} is not the file that the catalogue knows",
                f"its sha256 is {sha256}, known is {expected}; give its address to fetch it nevertheless",
            )
        return expected or sha256

    def _listed_sha256(self) -> str | None:
        """What the hub's list says. Where it gives none, nothing is known of the hash, and that is said at the end."""
        transport, address = self._session.transport, self._wanted.address
        asking = self._asking(Retries(self._patience, transport))
        try:
            listed = hub_api.find(transport, address, self._no_list, asking.until_answered)
        except DownloadError:
            return None
        return None if listed is None else listed.sha256

    def _no_list(self, answer: Answer, page: Address) -> Failure:
        return refusal(answer, page, self._patience, self._clock)

    def _refused(self, answer: Answer) -> Failure:
        """Runs where the network is read: the names of a repository's files are asked for where one is missing."""
        address = self._wanted.address
        failure = refusal(answer, address, self._patience, self._clock)
        if answer.status != 404 or not address.repo or answer.headers.get("x-error-code") == "RepoNotFound":
            return failure
        with suppress(Failure):
            files = [file.path for file in hub_api.list_files(self._session.transport, address, self._no_list)]
            names = [name for name in files if name.lower().endswith(".gguf")] or files
            more = ", ..." if len(names) > LISTED else ""
            failure.error.hint = "it has " + ", ".join(printable(name) for name in names[:LISTED]) + more
        return failure

    def _asking(self, retries: Retries) -> Asking:
        def tell(stage: str, note: str) -> None:
            self._tell(stage, 0, note)

        return Asking(self._wanted.address.host, retries, self._session.options, tell)

    def _whole_size(self) -> int | None:
        return self.whole if self._wanted.note else self.size

    def _tell(self, stage: str, done: int, note: str = "") -> None:
        both = ", ".join(text for text in (self._wanted.note, note) if text)
        self._session.steering(stage, self.before + done, self._whole_size(), both)
