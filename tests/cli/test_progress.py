"""How numbers of a download are said."""

from __future__ import annotations

import pytest

from app.cli.progress import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (599, "9 min 59 s"), (3599, "59 min"), (4000, "1 h 6 min")],
)
def test_a_time_is_as_exact_as_it_is_known(seconds: float, text: str) -> None:
    assert duration(seconds) == text
