"""Text as it enters a chat: Unicode that can be written anywhere, and blocks that nothing in them can end.

A terminal, a JSON file or a server can hand over halves of UTF-16 pairs. Such text looks fine until something has to
encode it, deep inside a request or a file; so it is mended once, where it enters.
"""

from __future__ import annotations

import re

from app.unicode import well_formed

__all__ = ["fenced", "well_formed"]


def fenced(text: str, kind: str) -> str:
    """`text` as a Markdown block of code, between fences that are longer than every run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"
