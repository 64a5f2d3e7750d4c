"""Ollama's models, read where they lie.

A model is a manifest, a JSON list of layers, and each layer is a file named by its SHA-256; the layer of the model
itself is a GGUF file. Source: server/modelpath.go and server/manifest.go of https://github.com/ollama/ollama.

    manifests/registry.ollama.ai/library/qwen3/0.6b     {"layers": [{"mediaType": ..., "digest": "sha256:..."}]}
    blobs/sha256-...
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import printable
from app.hub.library.entry import ModelEntry

MODEL_LAYER = "application/vnd.ollama.image.model"
_SYSTEM = Path("/usr/share/ollama/.ollama/models")  # of the service that Ollama's installer sets up on Linux
_DEFAULTS = ("registry.ollama.ai", "library")
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_MAX_MANIFEST = 1 << 20  # bytes


def models_folder(
    environment: Mapping[str, str] = os.environ, home: Path | None = None, system: Path = _SYSTEM
) -> Path:
    """Where Ollama keeps its models: OLLAMA_MODELS, the user's folder, or that of the service."""
    if environment.get("OLLAMA_MODELS"):
        return Path(environment["OLLAMA_MODELS"]).expanduser()
    own = (home or Path.home()) / ".ollama" / "models"
    return system if not (own / "manifests").is_dir() and (system / "manifests").is_dir() else own


@dataclass(frozen=True)
class OllamaStore:
    """Models are named ollama: and as `ollama list` names them, ollama:qwen3:0.6b."""

    root: Path
    prefix: str = "ollama"
    place: str = "Ollama"
    remove_hint: str = "'ollama rm NAME' removes it"

    def entries(self) -> Iterator[ModelEntry]:
        """See `Store.entries`."""
        manifests = self.root / "manifests"
        for folder, folders, names in os.walk(manifests):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            for name in sorted(name for name in names if name[0] != "."):
                steps = (Path(folder) / name).relative_to(manifests).parts
                if len(steps) == 4:  # host, namespace, model, tag
                    yield self._entry(manifests.joinpath(*steps), f"{self.prefix}:{_short(*steps)}")

    def _entry(self, manifest: Path, name: str) -> ModelEntry:
        try:
            blob = self._blob(manifest)
            size = blob.stat().st_size
        except ValueError as error:
            return ModelEntry(name, manifest, 0, origin="ollama", place=self.place, problem=str(error))
        except OSError as error:
            reason = f"its file cannot be read: {error.strerror}"
            return ModelEntry(name, manifest, 0, origin="ollama", place=self.place, problem=reason)
        return ModelEntry(name, blob, size, origin="ollama", place=self.place, files=(blob,))

    def _blob(self, manifest: Path) -> Path:
        """The GGUF file of a model; ValueError says what is wrong with the manifest."""
        with manifest.open("rb") as file:
            text = file.read(_MAX_MANIFEST)
        try:
            layers = [_Layer.read(layer) for layer in json.loads(text)["layers"] or ()]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("its manifest is damaged") from None
        models = [layer for layer in layers if layer.kind == MODEL_LAYER]
        if len(models) != 1:
            count = f"{len(models)} GGUF files" if models else "no GGUF file"
            raise ValueError(f"its manifest names {count}, where one is needed")
        digest = _DIGEST.fullmatch(models[0].digest)
        if digest is None:
            raise ValueError(f"its manifest is damaged: digest {printable(models[0].digest, 80)}")
        names = [f"sha256{separator}{digest[1]}" for separator in "-:"]  # a colon in the names of old versions
        blobs = [self.root / "blobs" / name for name in names]
        return next((blob for blob in blobs if blob.exists()), blobs[0])


@dataclass(frozen=True)
class _Layer:
    kind: str
    digest: str

    @classmethod
    def read(cls, layer: Any) -> _Layer:
        return cls(str(layer["mediaType"]).partition(";")[0].strip(), str(layer["digest"]))


def _short(host: str, namespace: str, model: str, tag: str) -> str:
    steps = [host, namespace, f"{model}:{tag}"]
    for default in _DEFAULTS:
        if steps[0] != default:
            break
        del steps[0]
    return "/".join(steps)
