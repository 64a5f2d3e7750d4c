"""Text as it enters a chat: Unicode that can be written anywhere.

A terminal, a JSON file or a server can hand over halves of UTF-16 pairs. Such text looks fine until something has to
encode it, deep inside a request or a file; so it is mended once, where it enters.
"""

from __future__ import annotations


def well_formed(text: str) -> str:
    """`text` with two surrogates that belong together as their character, and each lone one as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
