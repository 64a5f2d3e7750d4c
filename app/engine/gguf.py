"""An open GGUF file: its metadata, its table of tensors, and the bytes of one tensor when they are asked for.

Whether the engine can *run* the file is another question (`app.engine.spec.check_runnable`): a list of models must be
able to say what a file is and why it does not run.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.engine.formats import GGMLType
from app.engine.gguf_header import DAMAGED_HINT, Header, TensorInfo, read_header, shown_name
from app.errors import ModelFileError, printable

__all__ = ["GGMLType", "GGUFFile", "TensorInfo", "read_gguf"]


class GGUFFile:
    """An open GGUF file. Metadata arrays of strings are `Strings`, arrays of numbers are ndarrays."""

    def __init__(self, path: Path, descriptor: int, header: Header) -> None:
        self.path = path
        self.version = header.version
        self.size = header.size
        self.metadata: Mapping[str, Any] = MappingProxyType(header.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)
        self._descriptor = descriptor

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
        if self._descriptor < 0:
            raise ValueError(f"{self.path} is closed")
        done = 0
        while done < count:
            try:
                got = os.preadv(self._descriptor, [data.data[done:]], info.offset + first + done)
            except OSError as error:
                raise ModelFileError(f"{shown_name(self.path)} cannot be read: {error.strerror}") from error
            if got == 0:
                raise ModelFileError(
                    f"{shown_name(self.path)} became shorter while it was read, in tensor {printable(name)}",
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
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Open a GGUF file and read its header; no weight is touched.

    ModelFileError where it cannot be opened, and as `read_header` for what is wrong with it.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its other end
            raise ModelFileError(f"{shown_name(path)} is not a file", "give the path of a .gguf file")
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return GGUFFile(path, descriptor, read_header(path, descriptor))
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise ModelFileError(f"{shown_name(path)} cannot be opened: {error.strerror}") from error
