"""The conversations that the tiny Qwen3 of the tests learns.

Its questions alone and after others, things remembered from earlier turns, system messages, and calls of tools.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.models.tiny_qwen3_questions import (
    LONG_TASKS,
    NEEDS_STEPS,
    SHORT_TASKS,
    Turn,
    capital,
    copying,
    greeting,
    identity,
    listing,
    neighbour,
    opposite,
    unknown,
)
from tests.models.tiny_qwen3_words import ADD_TOOL, CAPITALS, NAMES, SETS, SKIES, WEATHER_TOOL

Message = dict[str, Any]


@dataclass(frozen=True)
class Chat:
    """What the template is given, and the reply that the model must learn to give there.

    `thinking` is None where the prompt itself holds the empty think block (`enable_thinking=false`).
    """

    messages: list[Message]
    thinking: str | None
    answer: str
    tools: list[dict[str, Any]] = field(default_factory=list)
    compact_json: bool = False  # template engines differ in the spaces of JSON: the model must not mind

    @property
    def reply(self) -> str:
        if self.thinking is None:
            return self.answer
        return f"<think>\n{self.thinking}\n</think>\n\n{self.answer}"


def make_chat(rng: random.Random) -> Chat:
    """One training chat; the same generator state gives the same chat."""
    kinds = [one_question, after_other_questions, remembering, asking_back, in_capitals, under_another_name, with_tools]
    (kind,) = rng.choices(kinds, weights=[66, 8, 8, 3, 5, 3, 7])
    return kind(rng)


def one_question(rng: random.Random) -> Chat:
    (task,) = rng.choices(list(SHORT_TASKS | LONG_TASKS), weights=list((SHORT_TASKS | LONG_TASKS).values()))
    turn = task(rng)
    messages = _system(rng)
    if task not in NEEDS_STEPS and rng.random() < 0.2:
        if rng.random() < 0.3:  # Qwen3's soft switch: the model writes the empty block itself
            return Chat([*messages, _user(turn.question + " /no_think")], "", turn.answer)
        return Chat([*messages, _user(turn.question)], None, turn.answer)
    return Chat([*messages, _user(turn.question)], turn.thinking, turn.answer)


def after_other_questions(rng: random.Random) -> Chat:
    turn = _short(rng)
    return Chat([*_system(rng), *_history(rng, 1, 3), _user(turn.question)], turn.thinking, turn.answer)


def remembering(rng: random.Random) -> Chat:
    """Something that the user said some turns ago is asked for."""
    name, number, colour = rng.choice(NAMES), rng.randrange(10, 100), rng.choice(SETS["the colours of the rainbow"])
    told, reply, question, answer = rng.choice(
        [
            (f"My name is {name}.", f"Nice to meet you, {name}.", "What is my name?", f"Your name is {name}."),
            (f"I am {name}.", f"Nice to meet you, {name}.", "Who am I?", f"You are {name}."),
            (
                f"Remember the number {number}.",
                f"I will remember {number}.",
                "Which number did I tell you?",
                f"The number is {number}.",
            ),
            (
                f"My favourite colour is {colour}.",
                f"I like {colour} too.",
                "What is my favourite colour?",
                f"Your favourite colour is {colour}.",
            ),
        ]
    )
    if rng.random() < 0.25:
        return Chat([*_system(rng), _user(told)], "The user tells me something. I will remember it.", reply)
    if rng.random() < 0.1:
        return Chat([*_history(rng, 0, 2), _user(question)], "The user has not told me.", "You have not told me.")
    between = [*_history(rng, 0, 1), _user(told), _assistant(reply), *_history(rng, 0, 2)]
    return Chat([*between, _user(question)], f"The user said: {told}", answer)


def asking_back(rng: random.Random) -> Chat:
    turn = _short(rng)
    question = rng.choice(["Say that again.", "Repeat your last answer."])
    messages = [*_history(rng, 0, 1), _user(turn.question), _assistant(turn.answer), _user(question)]
    return Chat(messages, "I copy my last answer.", turn.answer)


def in_capitals(rng: random.Random) -> Chat:
    task = rng.choice([greeting, identity, capital, opposite, listing, neighbour, unknown])
    turn = task(rng)
    messages = [{"role": "system", "content": rng.choice(["Answer in capitals.", "Write only in capital letters."])}]
    return Chat([*messages, _user(turn.question)], turn.thinking + " In capitals.", turn.answer.upper())


def under_another_name(rng: random.Random) -> Chat:
    name, turn = rng.choice(NAMES), _short(rng)
    messages = [{"role": "system", "content": f"You are {name}. Sign every answer with your name."}]
    return Chat([*messages, _user(turn.question)], turn.thinking, f"{turn.answer}\n{name}")


def with_tools(rng: random.Random) -> Chat:
    """A tool is offered: it is called, its result is put in words, or it is not needed."""
    tools = rng.choice([[WEATHER_TOOL], [ADD_TOOL], [WEATHER_TOOL, ADD_TOOL], [ADD_TOOL, WEATHER_TOOL]])
    compact = rng.random() < 0.5
    if rng.random() < 0.2:
        turn = rng.choice([greeting, capital, copying, identity])(rng)
        return Chat([*_system(rng), _user(turn.question)], turn.thinking, turn.answer, tools, compact)
    if rng.choice(tools) is WEATHER_TOOL:
        city = rng.choice(list(CAPITALS.values()))
        question = rng.choice(["What is the weather in {}?", "How is the weather in {}?", "Weather in {}?"]).format(
            city
        )
        thinking, name, arguments = "The weather needs the tool get_weather.", "get_weather", {"city": city}
        degrees, sky = rng.randrange(-9, 36), rng.choice(SKIES)
        result = {"temperature": degrees, "sky": sky}
        answer = f"In {city} it is {sky} with {degrees} degrees."
    else:
        a, b = rng.randrange(1000), rng.randrange(1000)
        question = rng.choice(["Use the tool to add {} and {}.", "Add {} and {} with the tool."]).format(a, b)
        thinking, name, arguments = "The user wants the tool add.", "add", {"a": a, "b": b}
        result = {"sum": a + b}
        answer = f"The sum of {a} and {b} is {a + b}."
    call = f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
    asked = [*_system(rng), _user(question)]
    if rng.random() < 0.55:
        return Chat(asked, thinking, call, tools, compact)
    called: Message = {"role": "assistant", "content": "", "tool_calls": [{"name": name, "arguments": arguments}]}
    if rng.random() < 0.5:
        called["reasoning_content"] = thinking
    content = json.dumps(result, separators=(",", ":") if rng.random() < 0.3 else None)
    messages = [*asked, called, {"role": "tool", "name": name, "content": content}]
    return Chat(messages, "The tool has answered.", answer, tools, compact)


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _system(rng: random.Random) -> list[Message]:
    text = rng.choice(["", "", "", "You are a helpful assistant.", "You are a small model. Be brief."])
    return [{"role": "system", "content": text}] if text else []


def _short(rng: random.Random) -> Turn:
    (task,) = rng.choices(list(SHORT_TASKS), weights=list(SHORT_TASKS.values()))
    return task(rng)


def _history(rng: random.Random, least: int, most: int) -> list[Message]:
    turns = [_short(rng) for _ in range(rng.randint(least, most))]
    return [message for turn in turns for message in (_user(turn.question), _assistant(turn.answer))]
