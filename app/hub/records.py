"""What was fetched, remembered beside the models: the SHA-256 and the source of each file of the models folder.

A record is made when a file has been checked and gets its name. It is only ever compared with the file, so one that is
out of date can raise an alarm and never hide one. It lies in a hidden folder of the models folder, a file a model.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from app.settings import private_dir

FOLDER = ".fetched"


@dataclass(frozen=True)
class Record:
    """How a file came: `source` as it was asked for, `sha256` of the whole file."""

    source: str
    sha256: str


def remember(models_dir: Path, file_name: str, record: Record) -> None:
    """Keep `record` of a file that is about to get its name. Raises OSError."""
    path = _path(models_dir, file_name)
    private_dir(path.parent)
    draft = path.with_name(f"{path.name}.new")
    with open(draft, "w", encoding="utf-8", opener=_private) as file:
        json.dump(asdict(record), file)
    draft.replace(path)


def recall(models_dir: Path, file_name: str) -> Record | None:
    """The record of a file; None where there is none that can be read."""
    try:
        record = Record(**json.loads(_path(models_dir, file_name).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    texts = isinstance(record.source, str) and isinstance(record.sha256, str)
    return record if texts and len(record.sha256) == 64 else None


def forget(models_dir: Path, file_name: str) -> None:
    """Remove the record of a file that is removed."""
    with contextlib.suppress(OSError):
        _path(models_dir, file_name).unlink()


def _path(models_dir: Path, file_name: str) -> Path:
    return models_dir / FOLDER / f"{file_name}.json"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
