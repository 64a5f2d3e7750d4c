"""What a typed line means: a command, perhaps one, or a message."""

from __future__ import annotations

import pytest

from app.ui.actions import Command, NearMiss, parse_command


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("/eixt", "exit"), ("/qiut", "quit"), ("/serach", "search"), ("/sesions", "sessions"), ("/Edti", "edit")],
)
def test_a_mistyped_command_is_taken_for_the_likeliest(typed: str, meant: str) -> None:
    """L05: letters that changed places come before letters that are others (/eixt is no /next)."""
    assert parse_command(typed) == NearMiss(typed[1:], meant)


@pytest.mark.parametrize(
    "typed", ["/home/u/x.py what is this", "/tmp", "// note", "/no_think hi", "/quit now", " /quit", "/", "/quit\nb"]
)
def test_what_is_no_command_is_a_message(typed: str) -> None:
    assert parse_command(typed) is None


def test_a_command_may_have_an_argument_where_it_takes_one() -> None:
    command = parse_command("/OPEN  my chat ")
    assert isinstance(command, Command)
    assert (command.action.id, command.argument) == ("open_chat", "my chat")
