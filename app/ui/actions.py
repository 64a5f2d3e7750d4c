"""Everything that a person can have qchat do, once: keys, slash commands, the palette and the help read it here.

An action has an id, which is also the method of a front end that does it (`action_new_chat` in the app and in the REPL)
and the name under `[keys]` in config.toml. Only what is listed here is a command: any other text that begins with a
slash is a message (`/etc/hosts, what is it?`, `/no_think hi`), and a near miss is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """`keys`: defaults in the app, in Textual's names, comma-separated; "" for none. `where`: what must have the focus.

    `argument` is how the help writes what follows the slash command; in brackets where it may be left out.
    """

    id: str
    title: str
    help: str
    slash: str = ""  # without the slash; "" for none
    argument: str = ""
    keys: str = ""
    where: str = "anywhere"  # anywhere | composer | message | chats
    footer: bool = False


ACTIONS: tuple[Action, ...] = (
    Action("send", "Send", "Send the message", keys="enter", where="composer", footer=True),
    Action("newline", "New line", "Begin a new line in the message", keys="ctrl+j,shift+enter", where="composer"),
    Action("stop", "Stop", "Stop the reply and keep what was said", keys="escape", footer=True),
    Action("new_chat", "New chat", "Begin a new chat", slash="new", keys="ctrl+n", footer=True),
    Action("sessions", "Chats", "Show the chats, or hide them", slash="sessions", keys="ctrl+b", footer=True),
    Action("open_chat", "Open a chat", "Open a chat by its id or title", slash="open", argument="CHAT"),
    Action("search", "Search", "Search all chats", slash="search", argument="[TEXT]", keys="ctrl+s"),
    Action("choose_model", "Model", "Choose a model", slash="model", argument="[NAME]", keys="ctrl+o", footer=True),
    Action("settings", "Settings", "System prompt and sampling of this chat", slash="settings", keys="f2"),
    Action("set", "Set", "Set one setting of this chat", slash="set", argument="NAME VALUE"),
    Action("system", "System prompt", "Set the system prompt of this chat", slash="system", argument="[TEXT]"),
    Action("think", "Thinking", "Let the model think first or not", slash="think", argument="on|off|model"),
    Action("thinking", "Show thinking", "Open or close all thinking", slash="thinking", keys="ctrl+t", footer=True),
    Action("regenerate", "Regenerate", "Another reply to the last question", slash="regenerate", keys="ctrl+r"),
    Action("edit", "Edit", "Ask the last question again, changed", slash="edit", keys="alt+e"),
    Action("previous_branch", "Previous branch", "The branch before this one", slash="previous", keys="alt+left"),
    Action("next_branch", "Next branch", "The branch after this one", slash="next", keys="alt+right"),
    Action("fork", "Fork", "Go on in a new chat that begins as this one does", slash="fork"),
    Action("copy", "Copy reply", "Copy the last reply", slash="copy", keys="alt+c"),
    Action("copy_code", "Copy code", "Copy the last block of code", slash="code", keys="alt+k"),
    Action("attach", "Attach", "Put a text file into the message", slash="attach", argument="FILE"),
    Action("editor", "Editor", "Write the message in $EDITOR", slash="editor", keys="ctrl+g"),
    Action("rename", "Rename", "Rename this chat", slash="rename", argument="[TITLE]"),
    Action("delete", "Delete", "Delete this chat; undo brings it back", slash="delete"),
    Action("undo_delete", "Undo delete", "Bring the chat back that was deleted last", slash="undo"),
    Action("export", "Export", "Write this chat to a file, .md or .json", slash="export", argument="[FILE]"),
    Action("stats", "Statistics", "Tokens, seconds and speed of the last reply", slash="stats"),
    Action("show_prompt", "Prompt", "Show the exact prompt of the last reply", slash="prompt"),
    Action("help", "Help", "Keys and commands", slash="help", keys="f1", footer=True),
    Action("palette", "Palette", "Find an action by its name", keys="ctrl+p"),
    Action("quit", "Quit", "Leave qchat", slash="quit", keys="ctrl+q", footer=True),
    Action("chat_page_up", "Scroll up", "Scroll the chat up", keys="pageup"),
    Action("chat_page_down", "Scroll down", "Scroll the chat down", keys="pagedown"),
    Action("first_message", "First message", "Go to the first message", keys="ctrl+home"),
    Action("last_message", "Last message", "Go to the last message", keys="ctrl+end"),
    Action("message_up", "Message up", "Select the message above", keys="alt+up"),
    Action("message_down", "Message down", "Select the message below", keys="alt+down"),
    Action("message_copy", "Copy", "Copy the selected message", keys="c", where="message", footer=True),
    Action("message_code", "Copy code", "Copy the last block of code in it", keys="y", where="message"),
    Action("message_edit", "Edit", "Ask the selected question again, changed", keys="e", where="message", footer=True),
    Action("message_regenerate", "Regenerate", "Another reply in this place", keys="r", where="message", footer=True),
    Action("message_fork", "Fork", "Go on from here in a new chat", keys="f", where="message", footer=True),
    Action("message_previous", "Previous branch", "The branch before this one", keys="left", where="message"),
    Action("message_next", "Next branch", "The branch after this one", keys="right", where="message"),
    Action("message_toggle", "Open or close", "Its thinking, or all of a long message", keys="enter", where="message"),
    Action("chat_open", "Open", "Open the selected chat", keys="enter", where="chats"),
    Action("chat_rename", "Rename", "Rename the selected chat", keys="r", where="chats", footer=True),
    Action("chat_delete", "Delete", "Delete the selected chat", keys="d,delete", where="chats", footer=True),
    Action("chat_undo", "Undo delete", "Bring back the chat deleted last", keys="u", where="chats"),
    Action("chat_export", "Export", "Write the selected chat to a file", keys="x", where="chats", footer=True),
)
_BY_ID = {action.id: action for action in ACTIONS}
_BY_SLASH = {action.slash: action for action in ACTIONS if action.slash}
_BY_SLASH |= {"exit": _BY_ID["quit"], "?": _BY_ID["help"]}


@dataclass(frozen=True)
class Command:
    """A line that is a slash command."""

    action: Action
    argument: str  # what follows, stripped


@dataclass(frozen=True)
class NearMiss:
    """A line that looks like a mistyped command: ask before it is sent. `meant` is the command without the slash."""

    word: str
    meant: str


def action(action_id: str) -> Action:
    """The action of that id."""
    return _BY_ID[action_id]


def slash_commands() -> Iterator[Action]:
    """The actions that can be typed, in the order of the help."""
    return (each for each in ACTIONS if each.slash)


def parse_command(text: str) -> Command | NearMiss | None:
    """What a typed message means: a command, perhaps one, or (None) a message.

    Only a first line that begins with a slash and a whole known name is a command, and only if no other line follows:
    a pasted text is never one. A space before the slash makes anything a message.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    word, _, argument = text[1:].strip().partition(" ")
    if found := _BY_SLASH.get(word.lower()):
        return Command(found, argument.strip()) if found.argument or not argument.strip() else None
    return NearMiss(word, near[0]) if word.isalpha() and (near := _like(word.lower())) else None


def _like(word: str) -> Sequence[str]:
    """The command that `word` may be a mistake for, if one is: letters that changed places come first."""
    import difflib  # noqa: PLC0415 - only for what is no command

    swapped = [known for known in _BY_SLASH if sorted(known) == sorted(word)]
    return swapped[:1] or difflib.get_close_matches(word, list(_BY_SLASH), n=1, cutoff=0.75)
