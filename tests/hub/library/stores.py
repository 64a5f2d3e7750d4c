"""Stores of other programs, laid out as those programs do."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from app.hub.library.ollama import MODEL_LAYER
from tests.gguf_files import make_model

MODEL = make_model(n_layers=1, context_length=300).to_bytes()
COMMIT, OLDER = "c" * 40, "0" * 40


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def in_hugging_face_cache(
    root: Path, repository: str, name: str, body: bytes = MODEL, commit: str = COMMIT, current: str = COMMIT
) -> Path:
    """The link in the snapshot."""
    folder = root / f"models--{repository.replace('/', '--')}"
    blob = folder / "blobs" / sha256(body)
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(body)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(current)
    link = folder / "snapshots" / commit / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def in_ollama(root: Path, name: str, body: bytes = MODEL, manifest: object = None) -> Path:
    """The blob. `name`: host/namespace/model/tag."""
    digest = f"sha256:{sha256(body)}"
    blob = root / "blobs" / digest.replace(":", "-")
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(body)
    layers = [
        {"mediaType": MODEL_LAYER, "digest": digest, "size": len(body)},
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'1' * 64}", "size": 5},
    ]
    config = {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": f"sha256:{'2' * 64}", "size": 5}
    written = {"schemaVersion": 2, "config": config, "layers": layers} if manifest is None else manifest
    file = root / "manifests" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(written if isinstance(written, bytes) else json.dumps(written).encode())
    return blob


def tree(*roots: Path) -> list[tuple[str, int, bytes]]:
    """Everything below, with what is in it: to see that nothing was changed."""
    files = sorted(path for root in roots for path in root.rglob("*") if path.is_file())
    return [(str(path), path.lstat().st_mtime_ns, path.read_bytes()) for path in files]
