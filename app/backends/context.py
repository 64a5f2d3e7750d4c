"""What of a conversation fits the context: the system message always, then as many of the latest turns as possible.

A turn is a user message and everything up to the next one. Whole turns go, the oldest first, and only where the prompt
would leave the answer too little room; how many messages went is for the caller to tell. The room kept for an answer
is `max_tokens`, but at most an eighth of the context and at most 1,024 tokens: more would forget turns for answers that
are rarely that long. The last turn stays in any case; it may use the whole context.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.backends.prompting import Prompt
from app.errors import ContextOverflowError

Message = Mapping[str, Any]
MOST_ANSWER_ROOM = 1024  # tokens


def answer_room(max_tokens: int, n_ctx: int) -> int:
    """Tokens of the context that a prompt leaves free while there are old turns to drop."""
    most = min(n_ctx // 8, MOST_ANSWER_ROOM)
    return most if max_tokens == -1 else min(max_tokens, most)


def fit(
    messages: Sequence[Message], make_prompt: Callable[[Sequence[Message]], Prompt], n_ctx: int, room: int
) -> tuple[Prompt, int]:
    """The prompt of what fits, and how many messages were left out.

    Raises ContextOverflowError if the last turn alone, with the system message, is longer than the context.
    """
    system, turns = _turns(messages)
    prompts: dict[int, Prompt] = {}

    def without(dropped: int) -> Prompt:
        if dropped not in prompts:
            kept = [message for turn in turns[dropped:] for message in turn]
            prompts[dropped] = make_prompt([*system, *kept])
        return prompts[dropped]

    def fits(dropped: int) -> bool:
        return len(without(dropped).ids) + room <= n_ctx

    may_go = len(turns) - 1
    dropped = 0 if may_go < 1 or fits(0) else bisect_left(range(may_go), True, lo=1, key=fits)
    prompt = without(dropped)
    if len(prompt.ids) > n_ctx:
        raise ContextOverflowError(len(prompt.ids), n_ctx)
    return prompt, sum(map(len, turns[:dropped]))


def _turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """The system messages in front, and the rest cut before every user message."""
    first = next((i for i, message in enumerate(messages) if message.get("role") != "system"), len(messages))
    turns: list[list[Message]] = []
    for message in messages[first:]:
        if message.get("role") == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return list(messages[:first]), turns
