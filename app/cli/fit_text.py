"""Whether a model fits into memory, in a few words: the same in `models list` and in the model picker."""

from __future__ import annotations

from app.cli.progress import human_bytes
from app.hub.fit import Fit


def fit_text(fit: Fit, about: str = "") -> str:
    """`about` stands before what is not exact: "~" for a model that is not here yet."""
    if fit.verdict in ("fits", "tight"):
        return fit.verdict
    needed = f"needs {about}{human_bytes(fit.least)}"
    return needed if fit.free is None else f"{needed}, {human_bytes(fit.free)} free"
