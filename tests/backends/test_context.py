"""What goes when the context is full: whole turns, the oldest first, no more than needed, never the system message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.backends.context import Message, answer_room, fit
from app.backends.prompting import Prompt
from app.errors import ContextOverflowError

SYSTEM = {"role": "system", "content": "s" * 10}


def turn(number: int, size: int = 10) -> list[dict[str, Any]]:
    return [{"role": "user", "content": str(number) * size}, {"role": "assistant", "content": str(number) * size}]


def letters(messages: Sequence[Message]) -> Prompt:
    """A prompt with one token for each character."""
    text = "".join(message["content"] for message in messages)
    return Prompt(text, list(range(len(text))))


@pytest.mark.parametrize("n_turns", [0, 1, 2, 9])
def test_everything_stays_while_it_fits(n_turns: int) -> None:
    messages = [SYSTEM, *(message for n in range(n_turns) for message in turn(n))]
    size = sum(len(message["content"]) for message in messages)
    prompt, left_out = fit(messages, letters, n_ctx=size + 5, room=5)
    assert (len(prompt.ids), left_out) == (size, 0)


def test_one_token_too_many_costs_one_turn() -> None:
    messages = [SYSTEM, *(message for n in range(9) for message in turn(n))]
    prompt, left_out = fit(messages, letters, n_ctx=190 + 5 - 1, room=5)
    assert left_out == 2
    assert prompt.text == "s" * 10 + "".join(message["content"] for n in range(1, 9) for message in turn(n))


def test_a_tool_loop_is_part_of_its_turn() -> None:
    loop = [
        {"role": "user", "content": "aaaaa"},
        {"role": "assistant", "content": "b"},
        {"role": "tool", "content": "c"},
    ]
    prompt, left_out = fit([*loop, *loop, {"role": "user", "content": "q"}], letters, n_ctx=10, room=1)
    assert (prompt.text, left_out) == ("aaaaabcq", 3)


def test_the_last_turn_may_take_the_room_of_the_answer_and_not_more() -> None:
    question = {"role": "user", "content": "q" * 20}
    prompt, left_out = fit([SYSTEM, *turn(1), question], letters, n_ctx=30, room=8)
    assert (len(prompt.ids), left_out) == (30, 2)
    with pytest.raises(ContextOverflowError) as caught:
        fit([SYSTEM, *turn(1), question], letters, n_ctx=29, room=8)
    assert (caught.value.needed, caught.value.available) == (30, 29)


def test_room_is_what_may_be_generated_within_bounds() -> None:
    assert answer_room(16, 4096) == 16
    assert answer_room(4096, 4096) == answer_room(-1, 4096) == 512
    assert answer_room(-1, 131072) == 1024
