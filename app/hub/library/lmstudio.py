"""LM Studio's models, read where they lie: PUBLISHER/MODEL/FILE.gguf below one folder.

LM Studio keeps the path of its home in ~/.lmstudio-home-pointer, and a folder of models that a person chose in
settings.json there. Source: findLMStudioHome of https://github.com/lmstudio-ai/lmstudio.js.
"""

from __future__ import annotations

import json
from pathlib import Path

from app.hub.library.folder import FolderStore


def models_folder(home: Path | None = None) -> Path:
    """Where LM Studio keeps its models, whether it is there or not."""
    home = home or Path.home()
    program = _home(home)
    try:
        chosen = json.loads((program / "settings.json").read_text(encoding="utf-8"))["downloadsFolder"]
    except (OSError, ValueError, KeyError, TypeError):
        chosen = None
    return Path(chosen) if isinstance(chosen, str) and chosen else program / "models"


def lm_studio_store(root: Path) -> FolderStore:
    """The models below `root`, named lmstudio:PUBLISHER/MODEL/FILE."""
    return FolderStore("lmstudio", "LM Studio", root, "lmstudio", "remove it in LM Studio, under My Models")


def _home(home: Path) -> Path:
    try:
        pointed = (home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        pointed = ""
    if pointed:
        return Path(pointed)
    before = home / ".cache" / "lm-studio"
    return before if before.is_dir() else home / ".lmstudio"
