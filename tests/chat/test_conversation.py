"""A conversation finds its paths whatever the clock did and whatever could not be read."""

from __future__ import annotations

from app.chat.conversation import Conversation, Message


def message(message_id: str, parent_id: str | None) -> Message:
    return Message(message_id, parent_id, "user", message_id)


def ids(conversation: Conversation) -> list[str]:
    return [one.id for one in conversation.path()]


def test_a_child_whose_id_sorts_before_its_parent_keeps_it() -> None:
    conversation = Conversation([message("c", None), message("a", "b"), message("b", "c")], "a")
    assert ids(conversation) == ["c", "b", "a"]


def test_a_message_whose_parent_is_lost_begins_a_path() -> None:
    conversation = Conversation([message("a", None), message("c", "b"), message("d", "c")], "d")
    assert ids(conversation) == ["c", "d"]
    assert conversation.siblings("c") == ("a", "c")


def test_a_circle_of_parents_has_an_end() -> None:
    conversation = Conversation([message("a", "b"), message("b", "a"), message("x", "x")], "a")
    assert ids(conversation) == ["b", "a"]
    conversation.go_to("x")
    assert ids(conversation) == ["x"]


def test_siblings_stand_in_the_order_in_which_they_were_made() -> None:
    conversation = Conversation([message("a", None), message("d", "a"), message("b", "a"), message("c", "b")])
    assert conversation.siblings("d") == ("b", "d")
    conversation.go_to("a")
    assert ids(conversation) == ["a", "d"]


def test_a_long_chat_opens_at_once() -> None:
    count = 20_000
    chain = [message(f"{n:06}", f"{n - 1:06}" if n else None) for n in range(count)]
    assert len(Conversation(reversed(chain)).path()) == count
