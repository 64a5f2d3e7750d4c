"""What the texts of the model picker say, and that they keep to their width."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from app.hub.choices import Choice
from app.hub.fit import Fit
from app.hub.transfer import Transfer
from app.ui.screens.picker.columns import columns_of, title_of
from app.ui.screens.picker.detail import detail
from app.ui.screens.picker.progress import bar
from app.ui.screens.picker.rows import row

GB = 10**9


@pytest.mark.parametrize(
    ("transfer", "numbers"),
    [
        (Transfer("downloading", 250, 1000, 25.0), " 25 %  250 B of 1 kB  25 B/s  30 s left"),
        (Transfer("downloading", 250, None, 25.0), " 12 %  250 B of ~2 kB  25 B/s  ~1 min 10 s left"),
        (Transfer("downloading", 250, 1000, 0.0), " 25 %  250 B of 1 kB  0 B/s"),
        (Transfer("downloading", 2500, None, None), "100 %  2 kB of ~2 kB"),
    ],
)
def test_a_bar_tells_bytes_speed_and_time_left(transfer: Transfer, numbers: str) -> None:
    assert bar(transfer, 2000, 100).plain.lstrip("━─ ") == numbers.lstrip()


@pytest.mark.parametrize("width", [20, 40, 60, 74, 200])
def test_a_row_keeps_to_its_width(width: int) -> None:
    fit = Fit(900 * GB, 10**6, 40_960, 12 * GB)
    choices = [
        Choice("disk", "日本語の模型" * 9, 5 * GB, quantisation="Q4_K", context=1_000_000, fit=fit),
        Choice("disk", "bad", problem="reason " * 40),
        Choice("catalogue", "qwen", 5 * GB, licence="a licence with a long name" * 3, context=40_960, fit=fit),
        Choice("backend", "far" * 50),
    ]
    columns = columns_of(choices, width)
    for choice in choices:
        text = row(choice, columns[title_of(choice)], width, in_use=False, failed=False).plain
        assert cell_len(text) <= width
    transfer = Transfer("downloading", 10**11, 10**12, 10**7)
    assert cell_len(bar(transfer, 10**12, width).plain) <= width


def test_a_tight_model_is_told_how_long_a_chat_may_get() -> None:
    fit = Fit(4 * GB, 100_000, 40_960, 6 * GB)
    said = detail(Choice("catalogue", "qwen", 4 * GB, fit=fit), 200).plain
    assert "6.0 GB free is enough for ~14,600 tokens" in said
