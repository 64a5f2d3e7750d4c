"""S04: halves of UTF-16 pairs, mended where text enters."""

from __future__ import annotations

import pytest

from app.chat.text import well_formed


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("", ""),
        ("plain ä 🐺 \0", "plain ä 🐺 \0"),
        ("a\ud83d\udc3ab", "a🐺b"),
        ("\udc9d", "\ufffd"),
        ("\ud83d", "\ufffd"),
        ("\udc3a\ud83d", "\ufffd\ufffd"),
        ("🐺\ud83dx\ud83d\udc3a", "🐺\ufffdx🐺"),
    ],
)
def test_pairs_become_characters_and_lone_halves_the_replacement(text: str, mended: str) -> None:
    assert well_formed(text) == mended
