"""The parts of the chat screen and what they show; nothing here changes a chat."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static, TextArea

from app.chat.chats import Chats
from app.chat.conversation import Message
from app.chat.host import BackendHost
from app.chat.session import ChatSession
from app.errors import QChatError
from app.ui.clipboard import copy_text
from app.ui.names import shown_model
from app.ui.reply_feed import context_used
from app.ui.widgets.composer import Composer
from app.ui.widgets.conversation import ConversationView
from app.ui.widgets.hints import CommandHints
from app.ui.widgets.session_list import SessionList
from app.ui.widgets.status import StatusLine

if TYPE_CHECKING:
    from app.ui.app import QChatApp

NARROW = 100  # columns; the list of chats is not shown beside the conversation below that, unless it is asked for

WELCOME = """\
[b]qchat[/b]

Ask something below. The model runs on this machine, and nothing leaves it.

[$text-accent]/[/] commands   [$text-accent]F1[/] keys   [$text-accent]ctrl+o[/] choose a model   \
[$text-accent]ctrl+s[/] search   [$text-accent]ctrl+q[/] leave"""


class ChatView(Screen[None]):
    """The screen with one chat in it. `chat` is never None: a new chat is one without messages."""

    DEFAULT_CSS = """
    ChatView {
        #beside { height: 1fr; }
        #chat { width: 1fr; }
        #welcome { width: 100%; height: 1fr; content-align: center middle; text-align: center; color: $text-muted; }
        SessionList { display: none; }
        &.with-chats SessionList { display: block; }
    }
    """

    def __init__(self, chats: Chats, host: BackendHost, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self.chats = chats
        self.host = host
        self.chat: ChatSession = chats.new()
        self._keymap = keymap

    def compose(self) -> ComposeResult:
        with Horizontal(id="beside"):
            yield SessionList()
            with Vertical(id="chat"):
                yield Static(Content.from_markup(WELCOME), id="welcome")
                yield ConversationView(self._place)
                yield CommandHints()
                yield Composer(self._keys("send"), self._keys("newline"))
                yield StatusLine()
        yield Footer(show_command_palette=False)

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def conversation(self) -> ConversationView:
        return self.query_one(ConversationView)

    @property
    def status(self) -> StatusLine:
        return self.query_one(StatusLine)

    @property
    def session_list(self) -> SessionList:
        return self.query_one(SessionList)

    @property
    def qchat(self) -> QChatApp:
        return cast("QChatApp", self.app)

    def on_mount(self) -> None:
        self.set_class(self.size.width >= NARROW, "with-chats")
        self.composer.focus()

    async def show_chat(self, chat: ChatSession) -> None:
        """Show this chat instead of the one that is shown."""
        self.chat = chat
        path = chat.conversation.path()
        await self._show_path(path)
        self.status.change(model=shown_model(chat.settings.model), activity="", speed=None, context_used=_used(path))
        await self.refresh_chats()
        self.composer.focus()

    async def show_path(self) -> None:
        """Show the path again: another branch is looked at."""
        await self._show_path(self.chat.conversation.path())
        self.status.change(context_used=_used(self.chat.conversation.path()))

    async def refresh_chats(self) -> None:
        """Read the list of chats again."""
        self.session_list.show(await self.chats.list(), self.chat.session.id)
        self.sub_title = self.chat.session.title

    def say(self, text: str, *, warning: bool = False) -> None:
        """A short message in the corner."""
        self.notify(text, severity="warning" if warning else "information", markup=False)

    def tell(self, error: QChatError) -> None:
        """An error, in its two lines."""
        hint = f"\n{error.hint}" if error.hint else ""
        self.notify(f"{error.message}{hint}", severity="error", markup=False, timeout=10)

    async def telling(self, work: Awaitable[object]) -> None:
        """Do `work`, and tell of its error."""
        try:
            await work
        except QChatError as error:
            self.tell(error)

    def copy(self, text: str | None, what: str) -> None:
        """Put `text` on the clipboard and say what became of it."""
        if not text:
            self.say(f"there is no {what} to copy", warning=True)
            return
        copied = copy_text(text, self.qchat.write_control)
        self.say(copied.said, warning=not copied.done)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if event.text_area is self.composer:
            one_line = event.text_area.document.line_count == 1
            self.query_one(CommandHints).show_for(event.text_area.text if one_line else "")

    async def _show_path(self, path: Sequence[Message]) -> None:
        self.show_welcome(not path)
        await self.conversation.show(path)

    def show_welcome(self, shown: bool) -> None:
        """Show the welcome in place of the conversation, or the conversation."""
        self.query_one("#welcome").display = shown
        self.conversation.display = not shown

    def _keys(self, action_id: str) -> list[str]:
        return self._keymap[action_id].split(",")

    def _place(self, message: Message) -> tuple[int, int]:
        siblings = self.chat.conversation.siblings(message.id)
        return siblings.index(message.id) + 1, len(siblings)


def _used(path: Sequence[Message]) -> int | None:
    return context_used(path[-1]) if path else None
