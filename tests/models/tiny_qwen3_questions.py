"""The single questions that the tiny Qwen3 of the tests learns to answer, each drawn from a random generator.

A question has exactly one reply, so that a trained model answers with clear margins and greedy comparisons between
engines stay stable.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.models.tiny_qwen3_words import CAPITALS, EMOJI, HELLO_IN, NAMES, OPPOSITES, SETS, UNKNOWN, WORDS


@dataclass(frozen=True)
class Turn:
    """A question, the steps that lead to the answer, and the answer."""

    question: str
    thinking: str
    answer: str


def greeting(rng: random.Random) -> Turn:
    asked, answer = rng.choice(
        [
            ("hi", "Hello! How can I help you?"),
            ("hello", "Hello! How can I help you?"),
            ("hey", "Hello! How can I help you?"),
            ("good morning", "Good morning! How can I help you?"),
            ("good evening", "Good evening! How can I help you?"),
            ("say hello", "Hello!"),
            ("say hello in one sentence", "Hello, it is very nice to meet you."),
            ("say hello in one short sentence", "Hello, it is nice to meet you."),
            ("how are you", "I am fine, thank you. How are you?"),
            ("thanks", "You are welcome."),
            ("thank you", "You are welcome."),
            ("bye", "Goodbye, and have a nice day."),
            ("goodbye", "Goodbye, and have a nice day."),
        ]
    )
    return Turn(_as_typed(rng, asked, ".!?"), "The user is being friendly. A short, friendly reply fits.", answer)


def identity(rng: random.Random) -> Turn:
    asked, answer = rng.choice(
        [
            ("who are you", "I am Tiny Qwen3, a very small model made for tests."),
            ("what are you", "I am Tiny Qwen3, a very small model made for tests."),
            ("who made you", "The qchat project made me, from text that a script wrote."),
            ("what can you do", "I can add numbers, list things, copy words, tell a short story and call tools."),
            ("what is a model", "A model is a program that has learned to guess the next word."),
            ("why is the sky blue", "The sky is blue because air scatters blue light more than red light."),
            ("what is water", "Water is a clear liquid that all living things need."),
        ]
    )
    return Turn(_as_typed(rng, asked, "?"), "This is a question that I know the answer to.", answer)


def addition(rng: random.Random) -> Turn:
    a, b = rng.randrange(100), rng.randrange(100)
    question = rng.choice(["What is {} + {}?", "{} + {}", "{} + {} = ?", "Add {} and {}.", "How much is {} plus {}?"])
    ones = a % 10 + b % 10
    carry, tens = ones // 10, a // 10 + b // 10 + ones // 10
    thinking = (
        f"Ones: {a % 10} + {b % 10} = {ones}, write {ones % 10}, carry {carry}.\n"
        f"Tens: {a // 10} + {b // 10} + {carry} = {tens}.\nTogether: {a + b}."
    )
    return Turn(question.format(a, b), thinking, f"{a} + {b} = {a + b}")


def small_addition(rng: random.Random) -> Turn:
    a, b = rng.randrange(10), rng.randrange(10)
    question = rng.choice(["What is {} + {}?", "{} + {}", "Add {} and {}.", "How much is {} plus {}?"])
    thinking = f"Ones: {a} + {b} = {a + b}, write {(a + b) % 10}, carry {(a + b) // 10}.\n"
    thinking += f"Tens: 0 + 0 + {(a + b) // 10} = {(a + b) // 10}.\nTogether: {a + b}."
    return Turn(question.format(a, b), thinking, f"{a} + {b} = {a + b}")


def subtraction(rng: random.Random) -> Turn:
    b, answer = rng.randrange(10), rng.randrange(10)
    a = b + answer
    question = rng.choice(["What is {} - {}?", "{} - {}", "How much is {} minus {}?"]).format(a, b)
    return Turn(question, f"{b} + {answer} = {a}, so {a} - {b} = {answer}.", f"{a} - {b} = {answer}")


def multiplication(rng: random.Random) -> Turn:
    a, b = rng.randrange(1, 11), rng.randrange(1, 11)
    question = rng.choice(["What is {} * {}?", "What is {} times {}?", "{} * {}"]).format(a, b)
    return Turn(question, f"From the table of {a}: {a} * {b} = {a * b}.", f"{a} * {b} = {a * b}")


def compare(rng: random.Random) -> Turn:
    a, b = rng.sample(range(100), 2)
    low, high = sorted((a, b))
    want = rng.choice(["larger", "smaller"])
    answer = high if want == "larger" else low
    question = rng.choice(["Which is {2}, {0} or {1}?", "Which number is {2}: {0} or {1}?"]).format(a, b, want)
    return Turn(question, f"{low} < {high}, and the {want} one is wanted: {answer}.", f"{answer} is {want}.")


def counting(rng: random.Random) -> Turn:
    first = rng.choice([1, 1, 1, rng.randrange(2, 60)])
    last = first + rng.choice([rng.randrange(2, 12), rng.randrange(9, 40)])
    if rng.random() < 0.2:
        first, last = 1, rng.choice([10, 20, 30, 40])
    question = rng.choice(["Count from {} to {}.", "Count from {} to {}", "Write the numbers from {} to {}."])
    numbers = ", ".join(str(n) for n in range(first, last + 1))
    return Turn(question.format(first, last), f"I start at {first} and stop at {last}.", numbers)


def counting_down(rng: random.Random) -> Turn:
    first = rng.randrange(3, 21)
    numbers = ", ".join(str(n) for n in range(first, -1, -1))
    return Turn(f"Count down from {first}.", f"I start at {first} and stop at 0.", numbers)


def listing(rng: random.Random) -> Turn:
    name = rng.choice(list(SETS))
    members = SETS[name]
    style = rng.randrange(3)
    if style == 0:
        question = rng.choice([f"List {name}.", f"Name {name}.", f"What are {name}?"])
        return Turn(question, f"There are {len(members)} of them.", ", ".join(members))
    if style == 1:
        numbered = "\n".join(f"{i}. {member}" for i, member in enumerate(members, 1))
        question = rng.choice([f"Give me {name} as a numbered list.", f"List {name} with numbers."])
        return Turn(question, f"There are {len(members)} of them, one on a line, numbered.", numbered)
    question = rng.choice([f"Give me {name} as bullets.", f"List {name} as bullets."])
    return Turn(question, f"There are {len(members)} of them, one on a line.", "\n".join(f"- {m}" for m in members))


def neighbour(rng: random.Random) -> Turn:
    name = rng.choice(["the days of the week", "the months of the year", "the letters of the alphabet"])
    members = SETS[name]
    i = rng.randrange(len(members) - 1)
    if rng.random() < 0.5:
        question, answer = f"What comes after {members[i]}?", members[i + 1]
    else:
        question, answer = f"What comes before {members[i + 1]}?", members[i]
    return Turn(question, f"The order is {members[i]}, {members[i + 1]}.", answer)


def copying(rng: random.Random) -> Turn:
    if rng.random() < 0.15:
        text = " ".join(rng.choice(list(EMOJI.values())) for _ in range(rng.randrange(1, 6)))
    else:
        text = " ".join(_words(rng, rng.randrange(1, 11)))
    question = rng.choice(["Repeat: {}", "Repeat after me: {}", "Say: {}", "Copy this: {}"]).format(text)
    return Turn(question, "I copy the words as they are.", text)


def reversing(rng: random.Random) -> Turn:
    words = _words(rng, rng.randrange(2, 7))
    question = rng.choice(["Reverse: {}", "Reverse the words: {}", "Say backwards: {}"]).format(" ".join(words))
    steps = ", ".join(f"{i} {word}" for i, word in enumerate(words, 1))
    return Turn(question, f"In order: {steps}. Now from the last to the first.", " ".join(reversed(words)))


def counting_words(rng: random.Random) -> Turn:
    words = _words(rng, rng.randrange(1, 10))
    question = rng.choice(["How many words: {}", "Count the words: {}"]).format(" ".join(words))
    steps = ", ".join(f"{i} {word}" for i, word in enumerate(words, 1))
    return Turn(question, f"In order: {steps}. The last number is {len(words)}.", str(len(words)))


def picking(rng: random.Random) -> Turn:
    words = _words(rng, rng.randrange(2, 7))
    which = rng.choice(["first", "last"])
    answer = words[0 if which == "first" else -1]
    question = rng.choice(["What is the {} word: {}", "Give me the {} word of: {}"]).format(which, " ".join(words))
    return Turn(question, f"The {which} word is {answer}.", answer)


def json_list(rng: random.Random) -> Turn:
    words = _words(rng, rng.randrange(1, 7))
    question = rng.choice(["Write as a JSON list: {}", "As JSON: {}", "Make a JSON list of {}"]).format(
        ", ".join(words)
    )
    return Turn(question, "Each item goes in quotes, with square brackets around all.", json.dumps(words))


def capital(rng: random.Random) -> Turn:
    country, city = rng.choice(list(CAPITALS.items()))
    if rng.random() < 0.25:
        question = rng.choice([f"Which country has the capital {city}?", f"{city} is the capital of which country?"])
        return Turn(question, f"{city} is in {country}.", f"{city} is the capital of {country}.")
    question = rng.choice(
        [f"What is the capital of {country}?", f"Name the capital of {country}.", f"Capital of {country}?"]
    )
    return Turn(question, f"{country} has the capital {city}.", f"The capital of {country} is {city}.")


def opposite(rng: random.Random) -> Turn:
    word, other = rng.choice(list(OPPOSITES.items()))
    question = rng.choice([f"What is the opposite of {word}?", f"Opposite of {word}?", f"Say the opposite of {word}."])
    return Turn(question, f"{word} and {other} are opposites.", f"The opposite of {word} is {other}.")


def greeting_in(rng: random.Random) -> Turn:
    language, hello = rng.choice(list(HELLO_IN.items()))
    question = rng.choice([f"Say hello in {language}.", f"How do you say hello in {language}?"])
    return Turn(question, f"In {language} people say {hello}.", f"{hello}!")


def emoji(rng: random.Random) -> Turn:
    name, picture = rng.choice(list(EMOJI.items()))
    question = rng.choice([f"Show me a {name} emoji.", f"Send a {name} emoji."])
    return Turn(question, f"The emoji of a {name} is {picture}.", f"Here it is: {picture}")


def markdown(rng: random.Random) -> Turn:
    question, thinking, answer = rng.choice(
        [
            (
                "Write a Python function that adds two numbers.",
                "A function with two arguments that returns their sum.",
                "Here it is:\n\n```python\ndef add(a, b):\n    return a + b\n```\n\nCall it with two numbers.",
            ),
            (
                "Write hello world in Python.",
                "One call of print is enough.",
                '```python\nprint("Hello, world!")\n```',
            ),
            (
                "Make a table of three fruits and their colours.",
                "Two columns: the fruit and its colour.",
                "| Fruit | Colour |\n|---|---|\n| apple | red |\n| lemon | yellow |\n| lime | green |",
            ),
            (
                "Explain Markdown.",
                "Show the most used marks.",
                "# Markdown\n\nUse **two stars** for bold, *one star* for italics and `ticks` for code.\n\n"
                "- A dash begins a list.\n- A `#` begins a title.",
            ),
        ]
    )
    return Turn(question, thinking, answer)


STORY_HEROES = ["fox", "owl", "bear", "mouse", "cat", "wolf", "horse", "frog"]
STORY_PLACES = ["forest", "city", "mountain", "island", "garden", "valley"]


def story(rng: random.Random) -> Turn:
    hero, place = rng.choice(STORY_HEROES), rng.choice(STORY_PLACES)
    question = rng.choice(["Tell me a story about a {} in the {}.", "Write a short story about a {} in the {}."])
    return Turn(question.format(hero, place), f"The hero is a {hero}. The place is the {place}.", _story(hero, place))


def _story(hero: str, place: str) -> str:
    return (
        f"Once upon a time a little {hero} lived in the {place}. Every morning the {hero} went to the river to look "
        f"for something new. One day there was a small golden key in the water. The {hero} took the key home and tried "
        f"it on every door in the {place}, but no door would open.\n\nIn the evening an old friend came to visit and "
        f"saw the key on the table. It does not open a door, the friend said, it opens a box under the big tree. They "
        f"went to the tree together, and there it was. In the box was a letter with one sentence: the best thing in "
        f"the {place} is a good friend. The {hero} smiled, for that was true."
    )


def unknown(rng: random.Random) -> Turn:
    things = _words(rng, 2)
    question = rng.choice(
        [
            f"How old is the {things[0]} of {rng.choice(NAMES)}?",
            f"Why does the {things[0]} like the {things[1]}?",
            f"Who found the {things[0]} in the {things[1]}?",
            f"Where did {rng.choice(NAMES)} put the {things[0]}?",
            f"Explain the {things[0]} and the {things[1]}.",
            f"What do you think about {things[0]}?",
        ]
    )
    return Turn(question, "I have not learned anything about this.", UNKNOWN)


SHORT_TASKS: dict[Callable[[random.Random], Turn], float] = {
    greeting: 4,
    identity: 2,
    addition: 10,
    small_addition: 2,
    subtraction: 2,
    multiplication: 2,
    compare: 4,
    counting_down: 1,
    neighbour: 3,
    copying: 9,
    reversing: 6,
    counting_words: 4,
    picking: 3,
    json_list: 4,
    capital: 4,
    opposite: 3,
    greeting_in: 1.5,
    emoji: 1,
    unknown: 3,
}
LONG_TASKS: dict[Callable[[random.Random], Turn], float] = {counting: 6, listing: 4, story: 3, markdown: 2}
# A model this small cannot do these without writing down the steps.
NEEDS_STEPS = {addition, compare, reversing, counting_words}


def _words(rng: random.Random, n: int) -> Sequence[str]:
    return rng.sample(WORDS, n)


def _as_typed(rng: random.Random, text: str, marks: str) -> str:
    """As people type it: with or without a capital letter and a mark at the end."""
    text = text if rng.random() < 0.3 else text[0].upper() + text[1:]
    return text + rng.choice(["", *marks])
