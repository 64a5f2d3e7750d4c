"""What a growing Markdown message costs: CPU share of one core while text streams in, and the time of one append.

    python bench/ui_markdown.py            # everything
    python bench/ui_markdown.py prose      # one of: prose, fence, appends, long

`prose` and `fence` write 8,000 characters at 100 tokens a second (4 characters each), handed over 12.5 times a second,
below 30 earlier messages; CPU time of the whole process, Textual's layout and painting included. `appends` times one
append at several sizes of the text. `long` writes a 200 kB reply as fast as it is drawn and compares its halves.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll

from app.ui.markdown.body import MarkdownBody

PROSE = (
    "The **answer** depends on what `you` ask for. A *short* paragraph has some words, a [link](https://example.org) "
    "and then goes on for a while, because models like to explain themselves at length before they stop.\n\n"
    "- first point, which is short\n- second point with `code`\n- third point that needs more than one row to be "
    "written down in full, as points often do\n\n## A heading\n\n"
)
CODE = "def step(state: State, token: int) -> State:\n    # feed one token\n    return state.after(token, 0.5)\n\n"
EARLIER = 30
PER_SECOND = 12.5
PIECE = 4 * 8  # characters: 100 tokens/s of 4 characters in batches at 12.5 Hz


class Conversation(App[None]):
    """Earlier messages and a growing one, following its end."""

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.anchor()
            for _ in range(EARLIER):
                yield MarkdownBody(PROSE * 3 + "```python\n" + CODE * 2 + "```\n")
            yield MarkdownBody(id="growing")


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def reply_of_200_kb() -> str:
    """Headings, a table of 500 rows, a fence of 2,000 lines, nested lists, a line of 20,000 characters, a late link."""
    table = "| name | value | note |\n|---|--:|---|\n"
    table += "".join(f"| row {n} | {n * 37 % 1000} | some words about it |\n" for n in range(500))
    fence = "```python\n" + "".join(f"value_{n} = compute({n}, 'text')  # {n}\n" for n in range(2000)) + "```\n"
    lists = "".join(f"{n}. item\n   - nested {n}\n     - deeper, with [a link][late]\n" for n in range(1, 301))
    sections = "".join(f"## Section {n}\n\n{PROSE}" for n in range(60))
    text = f"{sections[: len(sections) // 2]}\n{table}\n{fence}\n{lists}\n{'word ' * 4000}\n\n{sections}"
    return text + "\n[late]: https://example.org\n"


async def share(text: str) -> tuple[float, float]:
    """CPU share of one core while `text` streams in: in the first half and in the second."""
    app = Conversation()
    halves: list[float] = []
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        body = app.query_one("#growing", MarkdownBody)
        for half in (text[: len(text) // 2], text[len(text) // 2 :]):
            cpu, wall = time.process_time(), time.perf_counter()
            for turn, piece in enumerate(pieces(half, PIECE), 1):
                body.append(piece)
                await asyncio.sleep(max(0.0, wall + turn / PER_SECOND - time.perf_counter()))
            halves.append((time.process_time() - cpu) / (time.perf_counter() - wall))
    return halves[0], halves[1]


async def appends() -> None:
    """CPU time of one append, and of the frame it causes, at several sizes."""
    for kind, unit in (("prose", PROSE), ("fence", CODE)):
        for size in (1_000, 50_000, 200_000):
            app = Conversation()
            async with app.run_test(size=(100, 40)) as pilot:
                body = app.query_one("#growing", MarkdownBody)
                body.set_text(("" if kind == "prose" else "```python\n") + unit * (size // len(unit)))
                await pilot.pause()
                calls, frames = [], []
                for piece in pieces(unit * 8, PIECE):
                    start = time.thread_time()
                    body.append(piece)
                    calls.append(time.thread_time() - start)
                    cpu = time.process_time()
                    await asyncio.sleep(0.05)
                    frames.append(time.process_time() - cpu)
            print(
                f"append {kind:5} at {size:7,} characters: {statistics.median(calls) * 1e3:6.2f} ms median, "
                f"{max(calls) * 1e3:6.2f} ms most; frame {statistics.median(frames) * 1e3:6.2f} ms"
            )


async def long_reply() -> None:
    """CPU of a 200 kB reply in chunks of 400 characters, a frame for each: 5,000 characters a second at 12.5 Hz."""
    text = reply_of_200_kb()
    app = Conversation()
    halves, slowest = [], 0.0
    async with app.run_test(size=(100, 40)) as pilot:
        body = app.query_one("#growing", MarkdownBody)
        for half in (text[: len(text) // 2], text[len(text) // 2 :]):
            cpu = time.process_time()
            for piece in pieces(half, 400):
                start = time.process_time()
                body.append(piece)
                await pilot.pause()
                slowest = max(slowest, time.process_time() - start)
            halves.append(time.process_time() - cpu)
        start = time.process_time()
        body.set_text(text)
        await pilot.pause()
        final = time.process_time() - start
    print(
        f"long reply of {len(text):,} characters: CPU {halves[0]:.2f} s, then {halves[1]:.2f} s "
        f"({halves[1] / halves[0]:.2f} x); slowest step {slowest * 1e3:.0f} ms; whole text anew {final * 1e3:.0f} ms"
    )


def main() -> None:
    wanted = sys.argv[1:] or ["prose", "fence", "appends", "long"]
    for kind, text in (("prose", PROSE * 30), ("fence", "```python\n" + CODE * 100)):
        if kind in wanted:
            first, second = asyncio.run(share(text[:8000]))
            print(f"{kind}: {first:.1%} of one core in the first half, {second:.1%} in the second")
    if "appends" in wanted:
        asyncio.run(appends())
    if "long" in wanted:
        asyncio.run(long_reply())


if __name__ == "__main__":
    main()
