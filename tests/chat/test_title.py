"""A title out of the first question."""

from __future__ import annotations

import time

import pytest

from app.chat.title import title_of


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What is a monad?", "What is a monad?"),
        ("\n\n  ## **Explain** `this` \n```py\nx = 1\n```", "Explain this"),
        ("- [ ] first\n- second", "[ ] first"),
        ("> 1. a quoted list", "a quoted list"),
        ("```py\nx = 1\n```\nWhat does it do?", "What does it do?"),
        ("```py\nx = 1\n```", "x = 1"),
        ("~~~\n```\ny\n~~~", "y"),
        ("---\nafter a rule", "after a rule"),
        ("tab\tand \x1b[2J\u202e marks", "tab and [2J marks"),
        ("snake_case stays, 2 * 3 too", "snake_case stays, 2 * 3 too"),
        ("", ""),
        ("  \n```\n```\n", ""),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 20, "word word word word word word word word word word word word…"),
        ("words " * 20, "words words words words words words words words words words…"),
        ("漢" * 30, "漢" * 30),
        ("漢" * 31, "漢" * 29 + "…"),
        ("e\u0301" * 60, "e\u0301" * 60),
        ("e\u0301" * 61, "e\u0301" * 59 + "…"),
    ],
)
def test_the_first_line_that_says_something(question: str, title: str) -> None:
    assert title_of(question) == title


def test_one_line_of_many_megabytes_takes_no_time() -> None:
    start = time.process_time()
    assert len(title_of("# ` * _" * 1_000_000)) <= 60
    assert len(title_of("word " * 1_000_000)) <= 60
    assert time.process_time() - start < 0.5


def test_what_belongs_together_stays_together() -> None:
    family = "👨\u200d👩\u200d👧"
    assert title_of(f"a {family} title") == f"a {family} title"
    assert title_of(family * 40) == family * 29 + "…"
