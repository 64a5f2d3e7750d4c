"""What the app costs a person: start, keys, the processor while a reply streams, long chats, memory.

    python bench/tui.py [--rate 100] [--seconds 20] [--model MODEL]

Everything is measured from outside, on the real program in a terminal. Decoding is compared with `qchat ask` on the
same prompt, in turn in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tui_process import ROOT, AppInTerminal

PARAGRAPH = (
    "The sea was quiet that morning, and the boats lay still along the wall. A man who had *walked all night* sat "
    "down on the steps, took off one shoe, and looked at the water as if it **owed him something**. Nobody spoke.\n\n"
)
CODE = "    for index, value in enumerate(sorted(values, key=lambda pair: pair[1])):  # a line of the usual length\n"
BARE = """
from textual.app import App
from textual.widgets import TextArea
class Bare(App):
    def compose(self):
        yield TextArea(placeholder="Ask something")
Bare().run()
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rate", type=float, default=100.0, help="pieces of about a token, a second")
    options.add_argument("--seconds", type=float, default=20.0, help="of streaming that are measured")
    options.add_argument("--messages", type=int, default=5000, help="of the long chat")
    options.add_argument("--model", default="", help="compare decoding in the app with ask on this model")
    options.add_argument("--repetitions", type=int, default=5)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first_paint(home, asked.repetitions)
        streaming(home, "prose", PARAGRAPH * 400, asked.rate, asked.seconds)
        streaming(home, "fence", "```python\n" + CODE * 4000, asked.rate, asked.seconds)
        long_chat(home, asked.messages)
    if asked.model:
        with tempfile.TemporaryDirectory() as folder:
            decoding(Path(folder), asked.model, asked.repetitions)


def first_paint(home: Path, repetitions: int) -> None:
    """Seconds from the start of the process to the composer on the screen, beside a bare Textual app."""
    qchat = [sys.executable, "-m", "app"] if (ROOT / "app" / "__main__.py").exists() else [_script("qchat")]
    times: dict[str, list[float]] = {"qchat": [], "bare": []}
    for _ in range(repetitions + 1):
        for name, command in (("bare", [sys.executable, "-c", BARE]), ("qchat", qchat)):
            app = AppInTerminal(command, home)
            app.wait_for("sk something", 20)
            times[name].append(time.monotonic() - app.started)
            app.close()
    own, bare = (statistics.median(times[name][1:]) for name in ("qchat", "bare"))  # the first compiles the sources
    print(f"first paint: {own:.2f} s (a bare Textual app in turn with it: {bare:.2f} s)")


def streaming(home: Path, kind: str, text: str, rate: float, seconds: float) -> None:
    """The share of a core while a reply streams, and how long a key takes to its letter on the screen."""
    prepared = home / f"{kind}.md"
    prepared.write_text(text, encoding="utf-8")
    app = AppInTerminal([sys.executable, str(ROOT / "bench" / "tui_process.py"), str(prepared), str(rate)], home)
    app.wait_for("sk something", 20)
    app.watch(1.0)
    app.send("go")
    app.watch(3.0)
    halves = []
    for _ in range(2):
        before, begun = app.cpu_s(), time.monotonic()
        app.watch(seconds / 2)
        halves.append((app.cpu_s() - before) / (time.monotonic() - begun))
    latencies = []
    for letter in "жщюэфцйъыёбвгдклмн" * 3:
        app.type(letter)
        latencies.append(1000 * app.wait_for(letter, 5))
        app.watch(0.15)
    latencies.sort()
    p95 = latencies[int(0.95 * len(latencies))]
    share = statistics.mean(halves)
    print(
        f"{kind}: {100 * share:.1f} % of a core at {rate:.0f} pieces/s (halves {100 * halves[0]:.1f}, "
        f"{100 * halves[1]:.1f}); key to screen median {statistics.median(latencies):.0f} ms, p95 {p95:.0f} ms; "
        f"{app.memory_mb():.0f} MB"
    )
    app.close()


def long_chat(home: Path, count: int) -> None:
    """A chat of `count` messages: until its end is on the screen, a page of scrolling, and memory."""
    session_id = _make_chat(home, count)
    (home / "short.md").write_text("yes", encoding="utf-8")
    command = [sys.executable, str(ROOT / "bench" / "tui_process.py"), str(home / "short.md"), "100", session_id]
    app = AppInTerminal(command, home)
    painted = app.wait_for("sk something", 20)
    opened = app.wait_for(f"end of reply {count - 1}")
    app.watch(1.0)
    pages = []
    for _ in range(20):
        app.type("\x1b[5~")  # page up
        begun = time.monotonic()
        app.read(5)
        pages.append(1000 * (time.monotonic() - begun))
        app.watch(0.3)
    begun = time.monotonic()
    app.type("\x1b[1;5H")  # ctrl+home
    app.wait_for("beginning of message 0")
    first = time.monotonic() - begun
    print(
        f"{count:,} messages: on the screen {opened:.2f} s after the first paint ({painted:.2f} s); page up "
        f"{statistics.median(pages):.0f} ms; first message {first:.2f} s; {app.memory_mb():.0f} MB"
    )
    app.close()


def decoding(home: Path, model: str, repetitions: int) -> None:
    """Tokens a second of the engine inside the app and under `qchat ask`, in turn."""
    question = "Write a long story about the sea."
    speeds: dict[str, list[float]] = {"ask": [], "app": []}
    environment = ["env", f"QCHAT_HOME={home}", "QCHAT_MAX_TOKENS=300", "QCHAT_SAMPLING_TEMPERATURE=0"]
    for _ in range(repetitions):
        done = subprocess.run(
            [*environment, _script("qchat"), "ask", "--json", "-m", model, question], capture_output=True, check=True
        )
        usage = json.loads(done.stdout)["usage"]
        speeds["ask"].append((usage["generated_tokens"] - 1) / usage["decode_s"])
        app = AppInTerminal([*environment, _script("qchat"), "--model", model], home)
        app.wait_for("sk something", 20)
        app.watch(0.5)
        app.send(question)
        app.wait_for("context ", 60)  # the status line, when the reply is over
        timing = _saved_timing(environment)
        app.close()
        speeds["app"].append((timing["generated_tokens"] - 1) / timing["decode_s"])
    ask, app_speed = statistics.median(speeds["ask"]), statistics.median(speeds["app"])
    print(f"decoding {model}: {app_speed:.1f} tokens/s in the app, {ask:.1f} under ask: ratio {app_speed / ask:.3f}")


def _saved_timing(environment: list[str]) -> dict[str, float]:
    """How long the last reply took, once it is saved."""
    export = [*environment, _script("qchat"), "sessions", "export", "last", "--json", "-o", "-"]
    end = time.monotonic() + 30
    while time.monotonic() < end:
        listed = json.loads(subprocess.run(export, capture_output=True, check=True).stdout)
        timing: dict[str, float] = listed["chats"][0]["messages"][-1]["timing"]
        if "decode_s" in timing:
            return timing
    raise TimeoutError("the reply was never saved with its times")


def _make_chat(home: Path, count: int) -> str:
    """A chat of `count` messages with Markdown, in the store of `home`."""
    from app.chat.conversation import Message, new_message, new_session
    from app.chat.store import Store

    session = new_session()
    messages: list[Message] = []
    for number in range(count):
        body = f"beginning of message {number}\n\n" + PARAGRAPH * 3
        body += f"\n```python\n{CODE * 5}```\n\nend of reply {number}" if number % 2 else ""
        role = "assistant" if number % 2 else "user"
        messages.append(new_message(messages[-1].id if messages else None, role, body))
    store = Store.open(home / "data" / "sessions.db", lambda _: None)
    store.add([(session, messages)])
    store.close()
    return session.id


def _script(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
