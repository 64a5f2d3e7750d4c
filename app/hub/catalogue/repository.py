"""What a repository of the Hugging Face hub, or of a mirror at HF_ENDPOINT, offers: its quantisations, and the best.

`hf:ORG/REPO` names no file yet, so it is looked at; `hf:ORG/REPO:Q4_K_M` names one by its quantisation. Names come from
a server: those that may not stand in the models folder are refused by name and never offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.engine.formats import FORMATS
from app.engine.part_names import PartName
from app.errors import DownloadError, UsageError, printable
from app.hub.fit import SHORT_CHAT, Fit
from app.hub.names import check_file_name, check_path_segment

if TYPE_CHECKING:
    from app.hub.download.failures import Failure
    from app.hub.download.options import Options
    from app.hub.download.transport import Address, Answer
    from app.hub.transfer import Steering

USUAL, SMALL = "Q4_K_M", "Q8_0"
SMALL_BYTES = 2_000_000_000  # a file in Q8_0 of up to that is no burden, and loses least

_REPOSITORY = re.compile(r"hf:(?P<name>[^/:]+/[^/:]+)(?::(?P<kind>[A-Za-z0-9_.-]+))?")
_KIND = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|FP?16|F32))(?=[-./]|$)", re.IGNORECASE
)
_RUNS = frozenset(form.name for form in FORMATS.values()) | {f"Q{n}_K_{size}" for n in (4, 5) for size in "SML"}


@dataclass(frozen=True)
class Offer:
    """One model of a repository. `file` is the path of its only or first file there, `size` the bytes of them all."""

    kind: str  # quantisation, as its name tells; "" where it does not
    file: str
    size: int
    parts: int = 1
    problem: str = ""  # why it cannot be fetched or run
    fit: Fit | None = None  # without the cache of a conversation, which the name of a file does not tell
    best: bool = False


@dataclass(frozen=True)
class Repository:
    """`name` is ORG/REPO; `refused` says of each file why it is not offered."""

    name: str
    offers: tuple[Offer, ...]
    refused: tuple[str, ...] = ()

    @property
    def best(self) -> Offer | None:
        """What suits this machine best."""
        return next((offer for offer in self.offers if offer.best), None)

    def source(self, offer: Offer) -> str:
        """What to pull to get it."""
        return f"hf:{self.name}/{offer.file}"

    def short_source(self, offer: Offer) -> str:
        """The same by its quantisation, where that is enough."""
        alone = offer.kind and sum(other.kind == offer.kind for other in self.offers) == 1
        return f"hf:{self.name}:{offer.kind}" if alone else self.source(offer)


def repository_named(text: str) -> str | None:
    """ORG/REPO if `text` is hf:ORG/REPO, with or without a quantisation behind it, and names no file."""
    found = _REPOSITORY.fullmatch(text)
    return None if found is None else found["name"]


def file_named(text: str, steering: Steering | None = None) -> str:
    """The file that hf:ORG/REPO:QUANTISATION stands for, as hf:ORG/REPO/FILE; any other text is itself.

    Asks the hub, as `look` does. Raises UsageError where no or more than one file is meant.
    """
    found = _REPOSITORY.fullmatch(text)
    if found is None:
        return text
    repository = look(found["name"], None, steering)
    fitting = [offer for offer in repository.offers if offer.kind.casefold() == (found["kind"] or "").casefold()]
    if len(fitting) == 1 and found["kind"]:
        return repository.source(fitting[0])
    there = ", ".join(printable(offer.kind or offer.file, 80) for offer in repository.offers) or "no .gguf file"
    count = "names no file" if not found["kind"] else "is not there" if not fitting else "is there more than once"
    raise UsageError(f"{printable(text)} {count}", f"'qchat models show hf:{found['name']}' lists them: {there}")


def look(name: str, free: int | None, steering: Steering | None = None) -> Repository:
    """The offers of the repository ORG/REPO, the smallest first; `free`: bytes of memory that a model could have.

    A server that is busy is asked again, as for a download. Raises DownloadError, UsageError for a name that is none,
    and what `steering` raises, such as Cancelled.
    """
    from app.hub.download.asking import Asking  # noqa: PLC0415 - httpx, for whoever asks a server
    from app.hub.download.hub_api import list_files  # noqa: PLC0415
    from app.hub.download.options import configured  # noqa: PLC0415
    from app.hub.download.retries import Retries  # noqa: PLC0415
    from app.hub.download.transport import Address, Transport  # noqa: PLC0415
    from app.hub.source import hugging_face  # noqa: PLC0415 - which knows the catalogue

    source = hugging_face(f"{name}/any.gguf")
    options = configured()
    address = Address(source.urls[0], source.token, source.repo)

    def tell(stage: str, note: str) -> None:
        if steering is not None:
            steering(stage, 0, None, note)

    transport = Transport(options.patience)
    try:
        asking = Asking(address.host, Retries(options.patience, transport), options, tell)
        files = list(list_files(transport, address, _refused(name, options), asking.until_answered))
    finally:
        transport.close()
    return offered(name, [(file.path, file.size) for file in files], free)


def offered(name: str, files: Iterable[tuple[str, int]], free: int | None) -> Repository:
    """What the files (path, bytes) of a repository amount to."""
    refused: list[str] = []
    sizes: dict[str, int] = {}
    for path, size in files:
        if path.lower().endswith(".gguf"):
            try:
                *folders, last = path.split("/")
                for step in folders:
                    check_path_segment(step)
                check_file_name(last)
            except UsageError as error:
                refused.append(error.message)
            else:
                sizes[path] = size
    offers = _marked(sorted(_offers(sizes, free), key=lambda offer: (offer.size, offer.file)))
    return Repository(name, tuple(offers), tuple(refused))


def kind_in(path: str) -> str:
    """The quantisation that a file name tells, or else its folder."""
    found = [match[1] for match in _KIND.finditer(path[: -len(".gguf")])]
    return found[-1].upper().replace("FP16", "F16") if found else ""


def _offers(sizes: dict[str, int], free: int | None) -> Iterable[Offer]:
    for path, size in sizes.items():
        part = PartName.read(path)
        if part is not None and part.number > 1:
            if part.all[0] not in sizes:
                yield Offer(kind_in(f"{part.stem}.gguf"), path, size, part.count, "its first part is missing")
            continue
        kind = kind_in(path if part is None else f"{part.stem}.gguf")
        names = [path] if part is None else part.all
        missing = [name for name in names if name not in sizes]
        total = sum(sizes.get(name, 0) for name in names)
        problem = f"{len(missing)} of {len(names)} parts are missing" if missing else _problem(path, kind)
        fit = Fit(total, 0, SHORT_CHAT, free)
        yield Offer(kind, path, total, len(names), problem, fit)


def _problem(path: str, kind: str) -> str:
    last = path.rpartition("/")[2].lower()
    if last.startswith("mmproj") or "-mmproj" in last:
        return "is for pictures and sound, and no model"
    if last.startswith("imatrix") or "imatrix.gguf" in last:
        return "is a table for making models, and no model"
    if kind and kind not in _RUNS and not kind.startswith("UD-"):
        return f"qchat does not run {kind}"
    return ""


def _marked(offers: Sequence[Offer]) -> list[Offer]:
    """`offers` with the best marked: Q8_0 of a small model, else Q4_K_M, else the largest that fits."""
    able = [offer for offer in offers if not offer.problem and offer.fit and offer.fit.verdict != "too large"]
    plain = [offer for offer in able if offer.kind in _RUNS]
    small = [offer for offer in plain if offer.kind == SMALL and offer.size <= SMALL_BYTES]
    usual = [offer for offer in plain if offer.kind == USUAL]
    best = next(iter([*small, *usual, *reversed(plain), *reversed(able)]), None)
    return [replace(offer, best=offer is best) for offer in offers]


def _refused(name: str, options: Options) -> Callable[[Answer, Address], Failure]:
    from app.hub.download.failures import Failure  # noqa: PLC0415 - as in `look`
    from app.hub.download.refusal import refusal  # noqa: PLC0415

    def refused(answer: Answer, address: Address) -> Failure:
        if answer.status == 404 and answer.headers.get("x-error-code") != "RepoNotFound":
            hint = f"check the names ORG/REPO, or name a file: hf:{printable(name)}/FILE.gguf"
            error = DownloadError(f"{answer.host} has no list of files of {printable(name)}", hint)
            return Failure(error, lasting=True)
        return refusal(answer, address, options.patience, options.clock)

    return refused
