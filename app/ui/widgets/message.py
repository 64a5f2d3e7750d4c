"""One message on the screen: who said it, the thinking, the text, tool calls, and how it ended.

A message of a person is shown as it was typed, and folded when it is long; a reply is Markdown. While a reply is being
written its view takes the events; when it has ended the view is made anew from the message that was saved, so the last
picture is the one that a reload gives.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Static

from app.chat.conversation import Message, State
from app.cli.terminal import escape_controls
from app.templates.reply import ToolCall
from app.ui.keymap import bindings
from app.ui.names import shown_model
from app.ui.widgets.one_layout import OneLayout
from app.ui.widgets.thinking import ThinkingPane
from app.ui.widgets.tool_call import ToolCallPane
from app.ui.widgets.typed_text import TypedText

if TYPE_CHECKING:
    from app.ui.markdown.body import MarkdownBody

_ENDS: Mapping[State, str] = {
    "cancelled": "stopped",
    "interrupted": "interrupted: qchat ended before the reply did",
    "length": "cut off at the token limit",
    "error": "failed",
}


class MessageView(OneLayout, Vertical, can_focus=True):
    """The view of `message`; `place` is which branch it is of how many, from 1."""

    BINDINGS = bindings("message")
    DEFAULT_CSS = """
    MessageView {
        height: auto;
        padding: 0 1 0 1;
        margin: 0 0 1 0;
        max-width: 124;
        border-left: blank $background;
        &.user { border-left: vkey $primary; }
        &:focus { border-left: outer $accent; }
        .who { color: $text-muted; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        .notice { color: $text-warning; height: auto; }
        .failed { color: $text-error; }
        .activity { color: $text-accent; height: auto; }
    }
    """

    def __init__(self, message: Message, place: tuple[int, int] = (1, 1), *, thinking_open: bool = False) -> None:
        super().__init__(classes=message.role)
        self._said = message
        self._place = place
        self._thinking_open = thinking_open
        self._body: MarkdownBody | None = None
        self._thinking: ThinkingPane | None = None
        self._activity: Static | None = None

    @property
    def message_id(self) -> str:
        return self._said.id

    @property
    def code(self) -> str | None:
        """The last block of code in the message."""
        if self._body is None or not self._body.code_blocks:
            return None
        return self._body.code_blocks[-1].text

    def render_lines(self, crop: Region) -> list[Strip]:
        """A reply that is not selected has no bar, so there is nothing of its own to paint but the background.

        Painting the frame of a growing reply row by row was a third of the cost of a picture.
        """
        if self._said.role == "assistant" and not self.has_focus:
            return [Strip.blank(crop.width, self.visual_style.rich_style)] * crop.height
        return super().render_lines(crop)

    def compose(self) -> ComposeResult:
        said = self._said
        yield Static(self._header(), classes="who", markup=False)
        if said.role == "user":
            yield TypedText(said.content)
            return
        self._thinking = self._body = self._activity = None
        if said.thinking.strip():
            yield self._new_thinking(said)
        if said.content:
            self._body = _markdown(said.content)
            yield self._body
        yield from (ToolCallPane(call) for call in said.tool_calls)
        if said.state != "streaming":
            yield from self._about_the_end()

    def _new_thinking(self, said: Message) -> ThinkingPane:
        timing = said.timing
        live = said.state == "streaming" and not said.content and not said.tool_calls
        pane = ThinkingPane(said.thinking, timing.get("thinking_s"), int(timing.get("thinking_tokens", 0)), live=live)
        pane.set_reactive(ThinkingPane.opened, self._thinking_open)
        self._thinking = pane
        return pane

    # A reply that is being written

    def tell_activity(self, activity: str) -> None:
        """What is done before the reply begins, such as loading the model; shown until something is said."""
        if self._thinking is not None or self._body is not None:
            return
        line = Content(f"{escape_controls(activity)} …")
        if self._activity is None:
            self._activity = Static(line, classes="activity", markup=False)
            self.mount(self._activity)
        else:
            self._activity.update(line)

    def _end_activity(self) -> None:
        if self._activity is not None:
            self._activity.remove()
            self._activity = None

    def add_thinking(self, text: str, tokens: int) -> None:
        """The next piece of the thinking; `tokens` of the reply so far."""
        if self._thinking is None:
            if not text.strip():
                return
            self._end_activity()
            self._thinking = ThinkingPane(live=True)
            self._thinking.set_reactive(ThinkingPane.opened, self._thinking_open)
            self.mount(self._thinking)
        self._thinking.append(text, tokens)

    def add_answer(self, text: str) -> None:
        """The next piece of the answer."""
        if self._body is None:
            self._end_activity()
            self._body = _markdown("")
            self.mount(self._body)
        self._body.append(text)

    def add_tool_call(self, call: ToolCall) -> None:
        """A whole call; what the model says after it is text below it."""
        self._end_activity()
        self.mount(ToolCallPane(call))

    async def show(self, message: Message, place: tuple[int, int]) -> None:
        """Make the view anew from `message`."""
        self._said, self._place = message, place
        await self.recompose()

    def end_thinking(self, seconds: float | None, tokens: int) -> None:
        """The model has begun to answer."""
        if self._thinking is not None:
            self._thinking.finish(seconds, tokens)

    def open_thinking(self, opened: bool) -> None:
        """Open or close the thinking, now and when it comes."""
        self._thinking_open = opened
        if self._thinking is not None:
            self._thinking.opened = opened

    def toggle(self) -> None:
        """Open what is closed in this message: its thinking, or the rest of a long text."""
        if self._said.role == "user":
            self.query_one(TypedText).toggle()
        elif self._thinking is not None:
            self.open_thinking(not self._thinking.opened)

    # What it shows

    def _header(self) -> Content:
        who = "You" if self._said.role == "user" else escape_controls(shown_model(self._said.model)) or "Reply"
        number, count = self._place
        branch = f"  ‹ {number}/{count} ›" if count > 1 else ""
        measured = speed(self._said.timing) if self._said.state != "streaming" else ""
        about = " · ".join(part for part in (_clock(self._said.created), measured) if part)
        return Content.assemble((f"{who}{branch}", "bold"), f"  {about}")

    def _about_the_end(self) -> ComposeResult:
        said = self._said
        failed = " failed" if said.state == "error" else ""
        lines = [] if said.state == "error" and said.notices else [_ENDS[said.state]] if said.state in _ENDS else []
        for line in [*lines, *said.notices]:
            yield Static(Content(escape_controls(line)), classes=f"notice{failed}", markup=False)


def _markdown(text: str) -> MarkdownBody:
    from app.ui.markdown.body import MarkdownBody  # noqa: PLC0415 - slow; a new chat's first picture needs none

    return MarkdownBody(text)


def speed(timing: Mapping[str, float]) -> str:
    """Tokens a second and the time to the first token, as they were measured; "" where they were not."""
    steps, seconds = timing.get("generated_tokens", 0) - 1, timing.get("decode_s", 0.0)
    parts = [f"{steps / seconds:.1f} tokens/s"] if steps > 0 and seconds > 0 else []
    if first := timing.get("first_token_s"):
        parts.append(f"first after {first:.2f} s")
    return " · ".join(parts)


def _clock(created: float) -> str:
    if not created:
        return ""
    then, now = time.localtime(created), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)
