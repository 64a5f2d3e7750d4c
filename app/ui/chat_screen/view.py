"""The parts of the chat screen and what they show; nothing here changes a chat."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.events import DescendantFocus, Resize, ScreenResume
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import TextArea

from app.chat.chats import Chats
from app.chat.conversation import Message
from app.chat.host import BackendHost
from app.chat.session import ChatSession
from app.errors import QChatError
from app.ui.chat_screen.welcome import Welcome
from app.ui.compositor import SparingCompositor
from app.ui.names import shown_model
from app.ui.reply_feed import context_used
from app.ui.widgets.blank import Blank
from app.ui.widgets.composer import Composer
from app.ui.widgets.conversation import ConversationView
from app.ui.widgets.hints import CommandHints
from app.ui.widgets.key_line import KeyLine
from app.ui.widgets.session_list import SessionList
from app.ui.widgets.status import StatusLine

if TYPE_CHECKING:
    from app.ui.app import QChatApp

NARROW = 100  # columns; below that the list of chats lies over the conversation, and only while it is used
SHORT = 20  # rows; below that the welcome is one sentence


class ChatView(Screen[None]):
    """The screen with one chat in it. `chat` is never None: a new chat is one without messages."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012 - Textual has it so
    VERTICAL_BREAKPOINTS = [(0, "-short"), (SHORT, "-tall")]  # noqa: RUF012
    AUTO_FOCUS = "Composer"
    BLANK = True  # the parts cover it
    DEFAULT_CSS = """
    ChatView {
        layers: below above;
        #beside { layout: horizontal; height: 1fr; }
        #chat { width: 1fr; }
        SessionList { display: none; }
        &.with-chats SessionList { display: block; }
        &.-narrow SessionList {
            position: absolute;
            layer: above;
            width: 80%;
            max-width: 48;
            height: 100%;
            border-right: outer $border;
        }
        ToastRack { margin: 0 0 5 0; }  /* over the conversation, not over what is being written */
        &.-short #welcome-title, &.-short #welcome-keys { display: none; }
    }
    """

    def __init__(self, chats: Chats, host: BackendHost, keymap: Mapping[str, str], size: Size) -> None:
        super().__init__(classes=_classes(size))
        self._compositor = SparingCompositor()
        self.chats = chats
        self.host = host
        self.chat: ChatSession = chats.new()
        self._keymap = keymap
        self._wide = size.width >= NARROW
        self._seen = False

    def compose(self) -> ComposeResult:
        with Blank(id="beside"):
            yield SessionList()
            with Blank(id="chat"):
                yield Welcome(self._keymap)
                yield ConversationView(self._place)
                yield CommandHints()
                yield Composer(self._keys("send"), self._keys("newline"))
                yield StatusLine()
        yield KeyLine()

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

    def on_screen_resume(self, event: ScreenResume) -> None:
        """At first the styles are those that the parts have just been made with."""
        event.refresh_styles = self._seen
        self._seen = True

    def on_resize(self, event: Resize) -> None:
        """Where there is room the chats are beside the conversation."""
        wide = event.size.width >= NARROW
        if wide != self._wide:
            self._wide = wide
            self.set_class(wide or self.session_list.has_focus, "with-chats")

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Chats that lie over the conversation do so only while they are used."""
        if not self._wide and event.widget is not self.session_list:
            self.remove_class("with-chats")

    async def show_chat(self, chat: ChatSession) -> None:
        """Show this chat instead of the one that is shown."""
        self.chat = chat
        self.set_focus(self.composer)  # before anything that takes time: the next keys are meant for it
        path = chat.conversation.path()
        await self._show_path(path)
        model = shown_model(chat.settings.named(chat.settings.model))
        self.status.change(model=model, activity="", speed=None, speculation="", context_used=_used(path))
        await self.refresh_chats()

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
        from app.ui.clipboard import copy_text  # noqa: PLC0415 - not needed for the first picture

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
        welcome = self.query_one(Welcome)
        welcome.display = shown
        if shown:
            from app.hub import library_of_this_machine  # noqa: PLC0415 - the first picture does not tell of the model yet

            welcome.tell_model(self.chat.settings, library_of_this_machine())
        self.conversation.display = not shown

    def _keys(self, action_id: str) -> list[str]:
        return self._keymap[action_id].split(",")

    def _place(self, message: Message) -> tuple[int, int]:
        siblings = self.chat.conversation.siblings(message.id)
        return siblings.index(message.id) + 1, len(siblings)


def _classes(size: Size) -> str:
    """What a screen of that size would be given when it is shown: the styles are then right at once."""
    across = "-wide with-chats" if size.width >= NARROW else "-narrow"
    return f"{across} {'-tall' if size.height >= SHORT else '-short'}"


def _used(path: Sequence[Message]) -> int | None:
    return context_used(path[-1]) if path else None
