"""Every slash command of the line interface, on a backend of fixed answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from app.chat.conversation import new_message
from app.chat.store import Store
from app.ui.actions import slash_commands
from app.ui.repl.completion import CommandCompleter
from app.ui.repl.loop import Repl
from tests.backends.ollama.server import FakeOllama, serving
from tests.ui.repl.scripted import CODE
from tests.ui.repl.talk import CTRL_C, Talker


def test_every_slash_command_has_a_handler_and_a_line_of_help(talk: Talker) -> None:
    talked = talk("/help", "/?")
    names = [action.slash for action in slash_commands()]
    assert len(names) > 25
    assert set(talked.repl.handlers) == {action.id for action in slash_commands()}
    shown = re.findall(r"^/(\w+)", talked.out[0], re.MULTILINE)
    assert shown == names
    assert talked.out[1] == talked.out[0]


@pytest.mark.parametrize("edits", [True, False])
def test_help_tells_the_keys_that_there_are(talk: Talker, edits: bool) -> None:
    assert ("Alt-Enter" in talk("/help", edits=edits).out[0]) is edits


def test_a_question_is_answered_and_the_next_one_follows_it(talk: Talker) -> None:
    talked = talk("hello", "count")
    assert talked.out == ["you said: hello\n", "reply number 2\n"]
    assert talked.err == ["", ""]
    path = talked.repl.desk.path
    assert [(m.role, m.content) for m in path][:2] == [("user", "hello"), ("assistant", "you said: hello")]


@pytest.mark.parametrize(
    "text", ["/tmp", "/home/u/x.py what is this", "// note", "/no_think hi", "hi\n/quit", " /quit"]
)
def test_what_is_no_command_reaches_the_model_unchanged(talk: Talker, text: str) -> None:
    """L05, C05: paths and /no_think are messages; a space before the slash makes anything one."""
    assert talk(text).out == [f"you said: {text}\n"]


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_entry_sends_nothing(talk: Talker, text: str) -> None:
    talked = talk(text)
    assert talked.out == [""] and talked.err == [""] and not talked.repl.desk.path


def test_a_near_miss_is_asked_about_and_kept(talk: Talker) -> None:
    talked = talk("/eixt", "/nonesuchcommand", edits=True)
    assert "no command /eixt; did you mean /exit?" in talked.err[0]
    assert talked.drafts == ["/eixt", ""]
    assert talked.out == ["", "you said: /nonesuchcommand\n"]


def test_quit_and_exit_leave(talk: Talker) -> None:
    for command in ("/quit", "/exit", "/QUIT "):
        assert talk(command, "not read").source.entries == ["not read"]


def test_ctrl_c_hints_and_twice_leaves(talk: Talker) -> None:
    talked = talk(CTRL_C, "hello", CTRL_C, CTRL_C, "not read")
    assert "leaves" in talked.err[0] and "leaves" in talked.err[2]
    assert talked.source.entries == ["not read"]


def test_ctrl_c_just_before_a_reply_begins_stops_it(talk: Talker) -> None:
    """U06: there is a moment between the Enter key and the reply, and a signal in it was lost."""

    begun: list[Repl] = []

    def question() -> str:
        begun[0].interrupt()
        return "endless"

    talked = talk(question, begun=begun.append)
    assert "stopped; what was said is kept" in talked.err[0]
    assert [(m.content, m.state) for m in talked.repl.desk.path] == [("endless", "stop"), ("", "cancelled")]


def test_chats_are_listed_opened_and_searched(talk: Talker) -> None:
    first = talk("hello wolf").repl.desk.chat.session.id
    talked = talk("/sessions", "hello fox", "/sessions", f"/open {first[:5]}", "/open hello fox", "/search wolf")
    assert "hello wolf" in talked.out[0] and "*" not in talked.out[0]
    here = [line for line in talked.out[2].splitlines() if line.startswith("*")]
    assert len(here) == 1 and here[0].endswith("2         hello fox")
    assert talked.out[3] == "> hello wolf\nyou said: hello wolf\n"
    assert talked.err[3] == f"qchat: this is hello wolf ({first})\n"
    assert talked.out[4] == "> hello fox\nyou said: hello fox\n"
    assert first in talked.out[5] and "hello fox" not in talked.out[5]


def test_a_chat_can_be_opened_from_the_start(talk: Talker) -> None:
    talk("hello")
    talked = talk("more", wanted="last")
    assert [m.content for m in talked.repl.desk.path] == ["hello", "you said: hello", "more", "you said: more"]
    assert talked.source.outputs[0][0] == "> hello\nyou said: hello\n"


def test_a_new_chat_leaves_the_other_one_as_it_is(talk: Talker) -> None:
    talked = talk("hello", "/new", "again")
    assert [m.content for m in talked.repl.desk.path] == ["again", "you said: again"]
    assert len(Store.open_default(print).sessions()) == 2


def test_renaming(talk: Talker) -> None:
    talked = talk("hello", "/rename  My   chat ", "/rename", edits=True)
    assert talked.repl.desk.chat.session.title == "My chat"
    assert talked.drafts[2] == "/rename My chat"
    assert talk("hello", "/rename").err[1].startswith("qchat: a title needs")


def test_deleting_can_be_undone(talk: Talker) -> None:
    talked = talk("hello", "/delete", "/sessions", "/undo", "/undo")
    assert "deleted hello" in talked.err[1] and "no chats yet" in talked.err[2]
    assert talked.out[3] == "> hello\nyou said: hello\n"
    assert "no chat was deleted here" in talked.err[4]


def test_forking_begins_a_chat_with_the_same_words(talk: Talker) -> None:
    talked = talk("hello", "/fork", "more")
    chats = {one.session.id: one.messages for one in Store.open_default(print).sessions()}
    here = talked.repl.desk.chat.session.id
    assert chats.pop(here) == 4 and list(chats.values()) == [2]


def test_exporting_overwrites_nothing(talk: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    talked = talk("hello", "/export", "/export", "/export all.json", "/export all.json", "/export x.pdf")
    assert (tmp_path / "hello.md").read_text().startswith("# hello\n")
    assert (tmp_path / "hello-2.md").exists()
    assert len(json.loads((tmp_path / "all.json").read_text())["chats"][0]["messages"]) == 2
    assert "exists already" in talked.err[4] and ".md or .json" in talked.err[5]


def test_regenerating_adds_a_branch_and_branches_can_be_walked(talk: Talker) -> None:
    talked = talk("count", "/previous", "/regenerate", "/regenerate", "/previous", "/previous", "/previous", "/next")
    assert "one branch" in talked.err[1]
    assert talked.out[2:4] == ["reply number 2\n", "reply number 3\n"]
    assert talked.err[3] == "qchat: branch 3/3\n"
    assert talked.out[4] == "[branch 2/3]\nreply number 2\n"
    assert talked.out[5] == "[branch 1/3]\nreply number 1\n"
    assert "first branch (branch 1/3)" in talked.err[6]
    assert talked.out[7] == "[branch 2/3]\nreply number 2\n"


def test_a_branch_that_another_window_added_is_found(talk: Talker) -> None:
    def add() -> str:
        store = Store.open_default(print)
        session = store.session("last")
        question, _ = store.messages(session.id)
        store.put_message(session.id, new_message(question.id, "assistant", "from elsewhere"))
        return "/next"

    talk("hello")
    assert talk(add, wanted="last").out == ["[branch 2/2]\nfrom elsewhere\n"]


def test_editing_asks_the_last_question_again_as_a_branch(talk: Talker) -> None:
    talked = talk("one", "two", "/edit", "three", "/previous", edits=True)
    assert (talked.drafts[2], talked.prompts[2], talked.prompts[3]) == ("two", "edit> ", "> ")
    assert talked.out[4] == "[branch 1/2]\n> two\nyou said: two\n"
    assert "two" in talk("one", "two", "/edit").out[2]  # where nothing can be put before the person, it is shown


@pytest.mark.parametrize("cancel", [CTRL_C, "", "/new"])
def test_an_edit_that_is_given_up_changes_nothing(talk: Talker, cancel: str) -> None:
    talked = talk("one", "/edit", cancel, "two", edits=True)
    assert talked.prompts[2] == "> "
    contents = [m.content for m in talked.repl.desk.path]
    assert contents[-2:] == ["two", "you said: two"]
    assert cancel == "/new" or contents[:1] == ["one"]


def test_thinking_is_shown_when_asked_for(talk: Talker) -> None:
    talked = talk("think", "/thinking", "think", "/thinking")
    assert talked.err[0].splitlines() == ["thinking…", "thought for 0 s, 340 tokens"]
    assert talked.out[1] == "let me see\n" and "shown" in talked.err[1]
    assert "let me see" in talked.err[2] and talked.out[2] == "so it is\n"
    assert "hidden" in talked.err[3]
    assert "let me see" in talk("think", show_thinking=True).err[0]


def test_settings_of_the_chat_reach_the_model_and_stay_with_it(talk: Talker) -> None:
    commands = ("/set top_k 7", "/think off", "/system Be brief.", "settings", "/set top-k", "settings")
    talked = talk(*commands)
    assert talked.err[:3] == ["qchat: top_k = 7\n", "qchat: thinking = off\n", "qchat: system = Be brief.\n"]
    assert talked.out[3] == "7 False Be brief.\n"
    assert talked.out[5] == "None False Be brief.\n"
    resumed = talk("settings", "/settings", wanted="last")
    assert resumed.out[0] == "None False Be brief.\n"
    assert re.search(r"^system +Be brief\. +this chat$", resumed.out[1], re.MULTILINE)
    assert re.search(r"^kv +f16 +default$", resumed.out[1], re.MULTILINE)


def test_options_of_the_run_are_kept_in_a_chat_that_it_begins(talk: Talker) -> None:
    options: dict[str, Any] = {"system": "Be brief.", "sampling.top_k": 3}
    assert talk("settings", **options).out == ["3 None Be brief.\n"]
    assert talk("settings", wanted="last").out == ["3 None Be brief.\n"]


def test_a_system_prompt_can_be_seen_changed_and_emptied(talk: Talker) -> None:
    assert talk("/system", edits=True, system="Be brief.").drafts == ["/system Be brief."]
    talked = talk("/system", '/system ""', "/system", system="Be brief.")
    assert talked.out[0] == "Be brief.\n" and talked.out[2] == "(no system prompt)\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/set", "set what?"), ("/set nonsense 1", "nonsense"), ("/set top_p 7", "allowed"), ("/think", "/think on"),
        ("/think maybe", "/think on"), ("/open", "which chat?"), ("/open none", "no chat is called"),
        ("/search", "search for what?"), ("/search none", "nothing found"), ("/attach", "which file?"),
        ("/attach /nonexistent", "cannot read"), ("/copy", "no reply yet"), ("/code", "no block of code"),
        ("/stats", "no reply yet"), ("/regenerate", "no reply yet"), ("/edit", "no question yet"),
        ("/prompt", "no question yet"), ("/fork", "nothing has been said"), ("/delete", "nothing has been said"),
        ("/export", "nothing has been said"), ("/rename x", "nothing has been said"), ("/next", "one branch"),
        ("/undo", "no chat was deleted"), ("/editor", "no editor is set"), ("/model none", "no model none"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_done_says_why(talk: Talker, command: str, said: str) -> None:
    talked = talk(command)
    assert talked.err[0].startswith("qchat: ") and said in talked.err[0]
    assert talked.out == [""] and not talked.repl.desk.leaving


@pytest.mark.parametrize("command", ["/set top_p 7", "/open none", "/attach /nonexistent", "/model none", "/think"])
def test_a_command_whose_argument_is_wrong_is_there_to_be_corrected(talk: Talker, command: str) -> None:
    assert talk(command, edits=True).drafts == [command]


def test_a_command_without_an_argument_that_fails_leaves_the_prompt_empty(talk: Talker) -> None:
    assert talk("/copy", "/set top_p 0.5", edits=True).drafts == ["", ""]


def test_a_chat_goes_to_a_server_and_back(talk: Talker, qchat_home: Path, tiny_qwen3_path: Path) -> None:
    models = qchat_home / "data" / "models"
    models.mkdir(parents=True)
    (models / "mine.gguf").symlink_to(tiny_qwen3_path)
    with serving(FakeOllama()) as fake:
        (qchat_home / "config.toml").write_text(
            f'[servers.work]\nkind = "ollama"\nurl = "{fake.url}"\n'
            '[servers.gone]\nkind = "ollama"\nurl = "http://127.0.0.1:9"\n'
        )
        talked = talk(
            "/model work/qwen3:8b", "/model", "/model other", "/model none/x", "/model local/mine", "/model local/no"
        )
    assert talked.err[0] == "qchat: model: work/qwen3:8b\n"
    listed = [line.split() for line in talked.out[1].splitlines() if "work/" in line or "gone/" in line]
    assert listed[0] == ["*", "work/qwen3:8b", fake.url] and listed[1][:2] == ["gone/", "unreachable:"]
    assert talked.err[2] == "qchat: model: work/other\n"  # a name alone is one of the same server
    assert talked.err[3] == "qchat: model: work/none/x\n"
    assert talked.err[4] == "qchat: model: mine\n" and "no model no" in talked.err[5]
    settings = talked.repl.desk.chat.settings
    assert (settings.backend, settings.model) == ("local", "mine")


def test_models_are_listed_and_chosen(talk: Talker, qchat_home: Path, tiny_qwen3_path: Path) -> None:
    models = qchat_home / "data" / "models"
    models.mkdir(parents=True)
    (models / "mine.gguf").symlink_to(tiny_qwen3_path)
    talked = talk("/model mine", "/model")
    assert talked.repl.desk.chat.settings.model == "mine"
    assert re.search(r"^\*  mine +3\.9 MB$", talked.out[1], re.MULTILINE)
    assert "qchat models pull qwen3:4b" in talked.out[1]


def test_copying_without_a_terminal_is_said(talk: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    talked = talk("code", "/copy", "/code")
    assert talked.out[0] == CODE + "\n"
    assert talked.err[1].startswith("qchat: not copied") and talked.err[2].startswith("qchat: not copied")


def test_what_is_copied_is_the_raw_reply_or_its_last_code(talk: Talker, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.ui.clipboard import Copied  # noqa: PLC0415

    copied: list[str] = []
    monkeypatch.setattr(
        "app.ui.repl.reply_commands.copy_text", lambda text, _write: copied.append(text) or Copied(True, "copied")
    )
    talk("code", "/copy", "hello", "/code")
    assert copied == [CODE, "print('hi')\n"]


def test_a_file_goes_with_the_next_message_only(talk: Talker, tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("x = 1\n")
    talked = talk(f"/attach {file}", "", "what is this?", "and now?")
    assert "attached x.py: 6 B, 1 line" in talked.err[0]
    assert talked.out[2] == "you said: what is this?\n\nx.py:\n```py\nx = 1\n```\n"
    assert talked.out[3] == "you said: and now?\n"


def test_the_editor_gives_a_draft_or_where_there_is_none_a_message(
    talk: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "two\\nlines\\n" > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    talked = talk("/editor", edits=True)
    assert (talked.drafts, talked.out) == (["two\nlines"], [""])
    assert talk("/editor").out == ["you said: two\nlines\n"]


def test_statistics_and_the_prompt_of_the_last_reply(talk: Talker) -> None:
    talked = talk("hello", "/stats", "/prompt")
    assert "5 tokens; 0.50 s, 8.0 tokens/s" in talked.out[1] and "load_s" in talked.out[1]
    assert talked.out[2] == "⟦<|user|>⟧hello⟦<|end|>⟧\n"
    assert "/stats" not in talked.err[1]


def test_a_reply_that_fails_is_told_in_two_lines_and_the_chat_goes_on(talk: Talker) -> None:
    talked = talk("fail", "/stats", "/new", "bug", "/new", "hello")
    assert talked.err[0] == "qchat: the server is down\n  start it\n"
    assert talked.out[1] == "load_s  0.50\n"
    assert "unexpected ZeroDivisionError" in talked.err[3] and "Traceback" not in talked.err[3]
    assert talked.out[5] == "you said: hello\n"


def test_a_notice_is_a_line_of_its_own(talk: Talker) -> None:
    talked = talk("notice")
    assert (talked.out, talked.err) == (["anyway\n"], ["qchat: the context is full\n"])


@pytest.mark.parametrize(
    ("draft", "completed"),
    [
        ("/exp", {"/export "}), ("/s", {"/sessions", "/search ", "/settings", "/set ", "/system ", "/stats"}),
        ("/open my", {"/open My chat"}), ("/set pres", {"/set presence_penalty"}),
        ("/set thinking o", {"/set thinking on", "/set thinking off"}), ("/think o", {"/think on", "/think off"}),
        ("/model qwen3:4", {"/model qwen3:4b"}), ("hello /s", set()), ("/new x", set()),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("qchat_home")
def test_tab_completes_commands_and_what_follows_them(draft: str, completed: set[str]) -> None:
    completer = CommandCompleter()
    completer.titles = ["My chat", ""]
    found = completer.get_completions(Document(draft), CompleteEvent())
    assert {draft[: len(draft) + one.start_position] + one.text for one in found} == completed


@pytest.mark.usefixtures("qchat_home")
def test_tab_completes_files_and_leaves_a_paste_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    completer = CommandCompleter()
    found = list(completer.get_completions(Document(f"/attach {tmp_path}/no"), CompleteEvent()))
    assert [one.text for one in found] == ["tes.txt"]
    document = Document("/s\nmore", cursor_position=2)
    assert list(completer.get_completions(document, CompleteEvent())) == []
