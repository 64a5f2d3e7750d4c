"""`qchat sessions`: the chats of the app and the REPL, from the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from app.chat.conversation import Conversation, Message, Session
from app.chat.export import safe_file_name, to_json, to_markdown, write_new, write_private
from app.chat.importer import import_json
from app.chat.store import Store
from app.chat.text import well_formed
from app.cli import suggest
from app.cli.progress import ProgressLine
from app.cli.table import print_table
from app.cli.terminal import escape_controls, write_json
from app.errors import QChatError, UsageError, printable

EXIT_DECLINED = 1

_Command = Callable[..., Any]


def _json_option(command: _Command) -> _Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


@contextmanager
def _open_store() -> Iterator[Store]:
    store = Store.open_default(lambda text: click.echo(escape_controls(f"qchat: {text}"), err=True))
    try:
        yield store
    finally:
        store.close()


@click.group()
def sessions() -> None:
    """List, show, search, rename, export and delete chats.

    CHAT is an id, the beginning of one, a whole title, or "last" for the latest.
    """


@sessions.command("list")
@_json_option
def list_sessions(as_json: bool) -> None:
    """List the chats, the latest first."""
    with _open_store() as store:
        found = store.sessions()
    if as_json:
        write_json([_facts(one.session) | {"messages": one.messages, "preview": one.preview} for one in found])
    elif found:
        rows = [(s.session.id, _when(s.session.updated), f"{s.messages:,}", _shown(s.session)) for s in found]
        print_table(("ID", "WHEN", "MESSAGES", "TITLE"), rows)
    else:
        click.echo("no chats yet; 'qchat' begins one", err=True)


@sessions.command()
@click.argument("chat", shell_complete=suggest.chats)
@click.option("--thinking", is_flag=True, help="Also what the model thought.")
@_json_option
def show(chat: str, thinking: bool, as_json: bool) -> None:
    """Show a chat as Markdown: the branch that was looked at last.

    With --json, the messages of all branches; "path" lists the ids of the one that was looked at last.
    """
    with _open_store() as store:
        session, messages = _chat(store, chat)
    path = Conversation(messages, session.leaf_id).path()
    if as_json:
        document = asdict(session) | {"path": [message.id for message in path]}
        write_json(document | {"messages": [asdict(message) for message in messages]})
    else:
        click.echo(escape_controls(to_markdown(session, path, thinking)), nl=False)


@sessions.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The most to show.")
@_json_option
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search what was said, and the titles, for all of WORDS; thinking is left out."""
    with _open_store() as store:
        hits = store.search(" ".join(words), limit)
    if as_json:
        write_json([asdict(hit) for hit in hits])
    elif hits:
        rows = [(hit.session_id, _when(hit.created), hit.role or "title", hit.snippet) for hit in hits]
        print_table(("ID", "WHEN", "WHO", "TEXT"), rows)
    else:
        click.echo("nothing found", err=True)


@sessions.command()
@click.argument("chat", shell_complete=suggest.chats)
@click.argument("title")
@_json_option
def rename(chat: str, title: str, as_json: bool) -> None:
    """Give a chat a title."""
    title = " ".join(well_formed(title).split())
    if not title:
        raise UsageError("a title needs at least one letter")
    with _open_store() as store:
        session = replace(store.session(well_formed(chat)), title=title, titled_by_person=True)
        store.put_session(session)
    if as_json:
        write_json(_facts(session))
    else:
        click.echo(escape_controls(f"{session.id}  {_shown(session)}"))


@sessions.command()
@click.argument("chat", shell_complete=suggest.chats)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=suggest.files,
    help='Where to write, "-" for stdout; else a file named by the title.',
)
@click.option("--json", "as_json", is_flag=True, help="JSON of all branches, which 'import' reads, and no Markdown.")
@click.option("--thinking", is_flag=True, help="Also what the model thought; JSON always has it.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(chat: str, output: str | None, as_json: bool, thinking: bool, force: bool) -> None:
    """Write a chat to a file and print its path. No file is overwritten without --force."""
    with _open_store() as store:
        session, messages = _chat(store, chat)
    path = Conversation(messages, session.leaf_id).path()
    text = to_json([(session, messages)]) if as_json else to_markdown(session, path, thinking)
    if output == "-":
        click.echo(escape_controls(text) if sys.stdout.isatty() else text, nl=False)
        return
    suffix = ".json" if as_json else ".md"
    name = output or safe_file_name(session.title or session.id, suffix)
    file = Path(name)
    try:
        if output:
            write_private(file, text, force)
        else:
            file = write_new(Path(), file.stem, suffix, text)
    except FileExistsError:
        raise UsageError(f"{printable(name, 300)} is there already", "--force overwrites it") from None
    except OSError as error:
        raise QChatError(f"cannot write {printable(name, 300)}: {error.strerror}") from error
    click.echo(escape_controls(str(file)))


@sessions.command("import")
@click.argument("file", shell_complete=suggest.files)
@_json_option
def import_file(file: str, as_json: bool) -> None:
    """Add the chats of a JSON export, or of a file of unsaved messages. "-" reads stdin.

    Nothing that is there is changed: a chat whose id is taken becomes a new one. What is stopped adds nothing.
    """
    try:
        with click.open_file(file, "rb") as source:
            text = source.read().decode("utf-8-sig", "replace")
    except OSError as error:
        raise UsageError(f"cannot read {printable(file, 300)}: {error.strerror}") from error
    with _open_store() as store, ProgressLine() as progress:
        imported = import_json(store, text, "stdin" if file == "-" else file, partial(progress, "importing"))
    if as_json:
        write_json([_facts(one.session) | {"added": one.added, "renumbered": one.renumbered} for one in imported])
    else:
        for one in imported:
            click.echo(escape_controls(f"{one.session.id}  messages added: {one.added:,}  {_shown(one.session)}"))


@sessions.command()
@click.argument("chats", shell_complete=suggest.chats, metavar="CHAT...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json_option
@click.pass_context
def delete(ctx: click.Context, chats: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete chats for good, after asking."""
    with _open_store() as store:
        found = list({session.id: session for session in map(store.session, chats)}.values())
        if not yes:
            _confirm(ctx, found)
        for session in found:
            store.remove(session.id)
    if as_json:
        write_json([_facts(session) for session in found])
    else:
        for session in found:
            click.echo(escape_controls(f"deleted {session.id}  {_shown(session)}"))


def _confirm(ctx: click.Context, found: list[Session]) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("deleting asks first, and nobody can answer here", "--yes deletes without asking")
    for session in found:
        click.echo(escape_controls(f"{session.id}  {_shown(session)}"), err=True)
    if not click.confirm("Delete for good?", err=True):
        click.echo("nothing was deleted", err=True)
        ctx.exit(EXIT_DECLINED)


def _chat(store: Store, chat: str) -> tuple[Session, list[Message]]:
    session = store.session(well_formed(chat))
    return session, store.messages(session.id)


def _facts(session: Session) -> dict[str, Any]:
    facts = asdict(session)
    del facts["settings"]
    return facts


def _shown(session: Session) -> str:
    return session.title or "(no title)"


def _when(seconds: float) -> str:
    """Local time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
