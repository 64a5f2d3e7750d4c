"""What speculation did for a reply, in words: the same in the app's status line, `/stats` and `--stats`."""

from __future__ import annotations

from collections.abc import Mapping

from app.backends.usage import speed_up, tokens_per_step


def about_speculation(usage: Mapping[str, float | None]) -> str:
    """Of the fields of a `Usage`; "" where nothing was guessed."""
    drafted, accepted = usage.get("drafted_tokens"), usage.get("accepted_tokens") or 0
    if not drafted:
        return ""
    words = f"drafted {drafted:,}, accepted {accepted:,}"
    if (tokens := tokens_per_step(usage)) is not None:
        words += f", {tokens:.1f} tokens a step"
    if (gain := speed_up(usage)) is not None:
        words += f", {gain:.2f} times plain speed"
    return words
