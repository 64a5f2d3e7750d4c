"""Which file names may enter the models folder: one rule for every origin and every operating system.

A repository, a URL or a person can name a file `../../x`, `C:\\x` or `CON`. Such a name is refused, never repaired:
a repaired name is a file that nobody asked for.
"""

from __future__ import annotations

from app.errors import UsageError, printable

MAX_BYTES = 200  # of UTF-8; file systems take 255, and `.part` and `.1` are added to it
_FORBIDDEN = frozenset('/\\:*?"<>|')
_DEVICES = frozenset(
    {"CON", "PRN", "AUX", "NUL"} | {f"{port}{number}" for port in ("COM", "LPT") for number in range(1, 10)}
)


def check_file_name(name: str) -> str:
    """`name` itself if it may stand in the models folder; UsageError, with the name shown escaped, if not."""
    reason = _objection(name)
    if reason is None and not name.lower().endswith(".gguf"):
        reason = "a model file ends in .gguf"
    if reason is not None:
        raise UsageError(
            f"the file name {printable(name)!s} is refused: {reason}", "rename the file, or choose another"
        )
    return name


def check_path_segment(segment: str) -> str:
    """One step of a path inside a repository or wheel, under the same rule."""
    reason = _objection(segment)
    if reason is not None:
        raise UsageError(f"the path step {printable(segment)!s} is refused: {reason}")
    return segment


def _objection(name: str) -> str | None:
    stem = name.partition(".")[0]
    if not name or not stem:
        return "it has no name before the dot" if name else "it is empty"
    if not name.isprintable():
        return "it holds control or invisible characters"
    if not _FORBIDDEN.isdisjoint(name):
        return 'it holds one of / \\ : * ? " < > |'
    if name != name.strip() or name.endswith(".") or name.startswith("-"):
        return "it begins or ends with a space, a dot or a dash"
    if stem.strip().upper() in _DEVICES:
        return "it is the name of a device on Windows"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    return None
