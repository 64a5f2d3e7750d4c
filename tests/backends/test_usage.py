"""Figures that are made of others are absent where those are, never made up."""

from __future__ import annotations

import pytest

from app.backends.usage import Usage, speed_up, tokens_per_step


def test_figures_of_speculation() -> None:
    usage = Usage(accepted_tokens=20, decode_steps=10, plain_steps=4, decode_s=2.0, plain_s=0.4)
    assert tokens_per_step(vars(usage)) == 3.0
    assert speed_up(vars(usage)) == pytest.approx(30 * 0.1 / 2.0)


@pytest.mark.parametrize("missing", [{}, {"decode_steps": None}, {"decode_steps": 0, "plain_steps": 0}])
def test_what_is_not_known_is_not_told(missing: dict[str, float | None]) -> None:
    assert (tokens_per_step(missing), speed_up(missing)) == (None, None)


def test_a_reply_without_a_plain_step_has_nothing_to_compare_with() -> None:
    assert speed_up(vars(Usage(decode_steps=3, plain_steps=0, accepted_tokens=9, decode_s=1.0, plain_s=0.0))) is None
