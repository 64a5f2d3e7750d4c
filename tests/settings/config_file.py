"""A config file with what a test says."""

from __future__ import annotations

from pathlib import Path

from app.settings import paths, private_dir


def write_config(text: str, mode: int = 0o600) -> Path:
    """config.toml of the test's home."""
    file = paths().config_file
    private_dir(file.parent)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file
