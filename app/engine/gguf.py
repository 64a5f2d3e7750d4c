"""An open GGUF file: its metadata, its table of tensors, and the bytes of one tensor when they are asked for.

A large model may be published in several files; `read_model` opens them as one, with the metadata of the first.

Whether the engine can *run* the file is another question (`app.engine.spec.check_runnable`): a list of models must be
able to say what a file is and why it does not run.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import GGMLType
from app.engine.gguf_header import DAMAGED_HINT, Header, TensorInfo, read_header, shown_name
from app.engine.part_names import PartName
from app.errors import ModelFileError, printable

__all__ = ["GGMLType", "GGUFFile", "TensorInfo", "read_gguf", "read_model"]

SPLIT_NUMBER, SPLIT_COUNT, SPLIT_TENSORS = "split.no", "split.count", "split.tensors.count"


class GGUFFile:
    """An open GGUF file. Metadata arrays of strings are `Strings` (or `Unread`), arrays of numbers are ndarrays.

    `paths` are its files: `path` alone, or the parts of a split model, `path` being the first; `size` is of them all.
    """

    def __init__(self, paths: Sequence[Path], descriptors: Sequence[int], header: Header) -> None:
        self.path = paths[0]
        self.paths = tuple(paths)
        self.version = header.version
        self.size = header.size
        self.metadata: Mapping[str, Any] = MappingProxyType(header.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)
        self._descriptors = list(descriptors)

    def read(self, name: str, first: int = 0, n_bytes: int | None = None) -> NDArray[np.uint8]:
        """Bytes `first` to `first + n_bytes` (default: to the end) of tensor `name`, in memory of their own, [n_bytes].

        Raises as `read_into`.
        """
        count = self.tensors[name].n_bytes - first if n_bytes is None else n_bytes
        if count < 0:
            raise ValueError(f"{count} bytes of {name}")
        data = np.empty(count, np.uint8)
        self.read_into(data, name, first)
        return data

    def read_into(self, data: NDArray[np.uint8], name: str, first: int = 0) -> None:
        """Fill `data` with the bytes of tensor `name` from `first` on.

        Positional reads, not a mapping: no pages of the file stay in this process, and threads may read at once.
        ModelFileError where the file cannot be read or has become shorter since it was opened; KeyError for a tensor
        that is not there, ValueError for a range outside the tensor and after `close`.
        """
        info, count = self.tensors[name], data.size
        if first < 0 or first + count > info.n_bytes:
            raise ValueError(f"bytes {first}..{first + count} of {name}, which has {info.n_bytes}")
        if not self._descriptors:
            raise ValueError(f"{self.path} is closed")
        done = 0
        while done < count:
            try:
                got = os.preadv(self._descriptors[info.part], [data.data[done:]], info.offset + first + done)
            except OSError as error:
                shown = shown_name(self.paths[info.part])
                raise ModelFileError(f"{shown} cannot be read: {error.strerror}") from error
            if got == 0:
                shown = shown_name(self.paths[info.part])
                raise ModelFileError(
                    f"{shown} became shorter while it was read, in tensor {printable(name)}",
                    DAMAGED_HINT,
                )
            done += got

    def tensor_bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(info.n_bytes for info in self.tensors.values())

    def type_counts(self) -> dict[str, int]:
        """How many tensors there are of each type, by name, the most frequent first."""
        return dict(Counter(info.type.name for info in self.tensors.values()).most_common())

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_gguf(path: str | os.PathLike[str], *, texts: bool = True) -> GGUFFile:
    """Open one GGUF file and read its header; no weight is touched.

    texts: as of `read_header`. ModelFileError where it cannot be opened, and as `read_header` for what is wrong
    with it.
    """
    path = Path(path)
    descriptor, header = _open(path, texts)
    return GGUFFile([path], [descriptor], header)


def read_model(path: str | os.PathLike[str], *, texts: bool = True) -> GGUFFile:
    """As `read_gguf`, and if the file is a part of a split model, all its parts, which lie beside it, as one file.

    ModelFileError names a part that is missing or does not belong to the others.
    """
    path = Path(path)
    descriptor, header = _open(path, texts)
    count = header.metadata.get(SPLIT_COUNT, 1)
    if not isinstance(count, int) or count <= 1:
        return GGUFFile([path], [descriptor], header)
    os.close(descriptor)
    paths = _parts(path, count)
    descriptors: list[int] = []
    headers: list[Header] = []
    try:
        for part in paths:
            descriptor, header = _open(part, texts)
            descriptors.append(descriptor)
            headers.append(header)
        return GGUFFile(paths, descriptors, _joined(paths, headers))
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _open(path: Path, texts: bool) -> tuple[int, Header]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            raise ModelFileError(f"{shown_name(path)} is not a file", "give the path of a .gguf file")
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return descriptor, read_header(path, descriptor, texts=texts)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise ModelFileError(f"{shown_name(path)} cannot be opened: {error.strerror}") from error


def _parts(path: Path, count: int) -> list[Path]:
    """All parts of the model that `path` is a part of: beside it, or beside what it is a link to."""
    named = PartName.read(path.name)
    if named is None or named.count != count:
        raise ModelFileError(
            f"{shown_name(path)} is one of {count:,} parts of a model, and its name does not tell the others",
            "give the parts the names NAME-00001-of-0000N.gguf that they were published under",
        )
    folders = [path.parent, path.resolve().parent]
    folder = next((f for f in folders if all((f / name).exists() for name in named.all)), path.parent)
    missing = [number for number, name in enumerate(named.all, 1) if not (folder / name).exists()]
    if missing:
        name = printable(named.all[missing[0] - 1])
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise ModelFileError(
            f"part {missing[0]:,} of {count:,} of the model is missing: {name}{more}", "fetch it again, or that part"
        )
    return [folder / name for name in named.all]


def _joined(paths: Sequence[Path], headers: Sequence[Header]) -> Header:
    """The parts as one: the metadata of the first without what is about splitting, and the tensors of all."""
    tensors: dict[str, TensorInfo] = {}
    for index, (path, header) in enumerate(zip(paths, headers, strict=True)):
        said = header.metadata.get(SPLIT_NUMBER), header.metadata.get(SPLIT_COUNT)
        if said != (index, len(paths)):
            raise ModelFileError(
                f"{shown_name(path)} is not part {index + 1:,} of {len(paths):,} by what it says", DAMAGED_HINT
            )
        for name, info in header.tensors.items():
            if name in tensors:
                raise ModelFileError(f"tensor '{printable(name)}' is in two parts of {shown_name(path)}", DAMAGED_HINT)
            tensors[name] = dataclasses.replace(info, part=index)
    first = headers[0]
    promised = first.metadata.get(SPLIT_TENSORS)
    if isinstance(promised, int) and promised != len(tensors):
        raise ModelFileError(
            f"the parts of {shown_name(paths[0])} hold {len(tensors):,} tensors where {promised:,} are promised",
            "a part may be of another model: fetch them again",
        )
    metadata = {key: value for key, value in first.metadata.items() if not key.startswith("split.")}
    return Header(first.version, sum(header.size for header in headers), metadata, tensors)
