"""The messages of a chat, of which only a window of about thirty is ever mounted.

Laying out costs time for every mounted widget, so a chat of thousands of messages shows the part that is looked at;
scrolling to either end of the window moves it on by ten. What is looked at stays where it is on the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.chat.conversation import Message
from app.ui.widgets.blank import Blank
from app.ui.widgets.message import MessageView
from app.ui.widgets.one_layout import OneLayout

WINDOW, STEP = 30, 10  # messages

Place = Callable[[Message], tuple[int, int]]


class ConversationView(OneLayout, VerticalScroll, can_focus=False):
    """Shows a path of messages. `place` tells which branch a message is of how many."""

    BLANK = True
    DEFAULT_CSS = """
    ConversationView {
        scrollbar-size-vertical: 1;
        #messages { height: auto; min-height: 100%; padding: 1 1 0 1; }
        .elsewhere { width: 100%; text-align: center; color: $text-muted; height: auto; margin: 0 0 1 0; }
    }
    """

    def __init__(self, place: Place) -> None:
        super().__init__(id="conversation")
        self._place = place
        self._path: list[Message] = []
        self._start = self._end = 0  # the window: messages [start, end) of the path are mounted
        self._thinking_open = False
        self._moving = False  # the window is being moved; scrolling meanwhile moves nothing

    def compose(self) -> ComposeResult:
        with Blank(id="messages"):  # at least as high as the view: an anchored one would scroll short text down
            yield Static(id="earlier", classes="elsewhere")
            yield Static(id="later", classes="elsewhere")

    @property
    def path(self) -> Sequence[Message]:
        """All messages of the chat, mounted or not."""
        return self._path

    @property
    def views(self) -> Sequence[MessageView]:
        """The views that are mounted, in order."""
        return list(self._messages.query_children(MessageView))

    @property
    def _messages(self) -> Blank:
        return self.query_one("#messages", Blank)

    def view(self, message_id: str) -> MessageView | None:
        """The view of a message, if it is in the window."""
        return next((view for view in self.views if view.message_id == message_id), None)

    async def show(self, path: Sequence[Message]) -> None:
        """Show the end of `path`, in place of what was shown."""
        self._path = list(path)
        await self._messages.remove_children(MessageView)
        self._start = self._end = len(path)
        await self._move(len(path) - WINDOW, len(path))
        self.anchor()

    async def add(self, message: Message) -> MessageView:
        """Put `message` after its parent, in place of what followed there, and look at it."""
        kept = next((i + 1 for i, each in enumerate(self._path) if each.id == message.parent_id), 0)
        if kept < len(self._path):
            await self.show(self._path[:kept])
        at_end = self._end == len(self._path)
        self._path.append(message)
        start = self._start if at_end else len(self._path) - WINDOW
        await self._move(max(start, len(self._path) - WINDOW), len(self._path))
        self.anchor()
        view = self.view(message.id)
        assert view is not None
        return view

    def remember(self, message: Message) -> None:
        """`message` has changed, and its view, if it has one, shows that already."""
        for index in reversed(range(len(self._path))):
            if self._path[index].id == message.id:
                self._path[index] = message
                return

    async def replace(self, message: Message) -> None:
        """`message` has changed."""
        self.remember(message)
        if view := self.view(message.id):
            await view.show(message, self._place(message))

    async def go_to(self, message_id: str) -> MessageView | None:
        """Scroll to a message of the path, wherever it is."""
        index = next((i for i, message in enumerate(self._path) if message.id == message_id), None)
        if index is None:
            return None
        if not self._start <= index < self._end:
            start = max(min(index - WINDOW // 2, len(self._path) - WINDOW), 0)
            await self._move(start, start + WINDOW)
        self.release_anchor()
        view = self.view(message_id)
        if view:
            self.call_after_refresh(self.scroll_to_widget, view, animate=False, top=True)
        return view

    async def go_to_start(self) -> None:
        """The first message."""
        self.release_anchor()
        await self._move(0, WINDOW)
        self.scroll_home(animate=False)

    async def go_to_end(self) -> None:
        """The last message, and stay with what is added."""
        await self._move(len(self._path) - WINDOW, len(self._path))
        self.anchor()

    def open_thinking(self, opened: bool) -> None:
        """Open or close the thinking of every reply."""
        self._thinking_open = opened
        for view in self.views:
            view.open_thinking(opened)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving or old_value == new_value:
            return
        if new_value < old_value and new_value <= self.size.height / 2 and self._start > 0:
            self.run_worker(self._move_keeping_place(-STEP), exclusive=True, group="window")
        elif new_value > old_value and new_value >= self.max_scroll_y - self.size.height / 2 and self._later:
            self.run_worker(self._move_keeping_place(STEP), exclusive=True, group="window")

    @property
    def _later(self) -> int:
        return len(self._path) - self._end

    async def _move_keeping_place(self, step: int) -> None:
        """Move the window by `step`, with a message that stays in it in the same place on the screen."""
        start = max(min(self._start + step, len(self._path) - WINDOW), 0)
        kept = [view for view in self.views if start <= self._index(view) < start + WINDOW]
        if self._moving or not kept:
            return
        fixed = kept[0] if step < 0 else kept[-1]
        distance = fixed.virtual_region.y - self.scroll_y

        def restore() -> None:
            self.scroll_to(y=fixed.virtual_region.y - distance, animate=False, force=True, immediate=True)
            self._moving = False

        self.release_anchor()
        await self._move(start, start + WINDOW)
        self._moving = True
        self.call_after_refresh(restore)

    def _index(self, view: MessageView) -> int:
        first = self.views[0]
        return self._start + self.views.index(view) if first else self._start

    async def _move(self, start: int, end: int) -> None:
        """Mount the messages [start, end) and no others."""
        start, end = max(start, 0), min(max(end, 0), len(self._path))
        self._moving = True
        try:
            views = self.views
            with self.app.batch_update():
                wanted = range(start, end)
                mounted = range(self._start, self._end)
                for index, view in zip(mounted, views, strict=True):
                    if index not in wanted:
                        await view.remove()
                overlap = [i for i in wanted if i in mounted]
                first = overlap[0] if overlap else end
                last = overlap[-1] + 1 if overlap else end
                await self._messages.mount_all(self._new_views(start, first), after=self.query_one("#earlier"))
                await self._messages.mount_all(self._new_views(last, end), before=self.query_one("#later"))
                self._start, self._end = start, end
                self._tell("#earlier", "▲", start, "earlier")
                self._tell("#later", "▼", self._later, "later")
        finally:
            self._moving = False

    def _new_views(self, start: int, end: int) -> list[MessageView]:
        return [
            MessageView(message, self._place(message), thinking_open=self._thinking_open)
            for message in self._path[start:end]
        ]

    def _tell(self, selector: str, arrow: str, count: int, where: str) -> None:
        line = self.query_one(selector, Static)
        line.display = count > 0
        line.update(Content(f"{arrow} {count:,} {where} message{'s' if count != 1 else ''}"))
