"""The whole program in a real tmux, on the tiny trained network: what a person does in a day, key by key."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.home import home_with_compiled_kernels, home_with_kernels, qchat_home
from tests.ui.terminal.tmux import Tmux

__all__ = ["home_with_compiled_kernels", "home_with_kernels", "qchat_home"]

QCHAT = f"{shlex.quote(sys.executable)} -m app"
ENDED = "ended with"
EMPTY = "Ask something"  # in an empty message


def start(terminal: Tmux, options: str) -> str:
    terminal.command(f"clear; {QCHAT} {options}; echo {ENDED} $?")
    return terminal.until("^q Quit")


def leave(terminal: Tmux) -> str:
    terminal.press("C-q")
    return terminal.until(f"{ENDED} 0")


def ask(terminal: Tmux, text: str, answer: str) -> str:
    """Send `text` and wait until the whole answer is there and the next question can be sent."""
    terminal.type(text)
    terminal.press("Enter")
    return terminal.until(lambda screen: answer in lines(screen) and EMPTY in screen and not is_busy(screen))


def lines(screen: str) -> list[str]:
    """The lines of the conversation, without the chats beside it."""
    return [line.rpartition("▕")[2].strip() for line in screen.splitlines()]


def status(screen: str) -> str:
    """The line under the message."""
    return screen.rpartition("╯")[2].strip().partition("\n")[0]


def is_busy(screen: str) -> bool:
    """Whether the status line says that something is done."""
    return any(word in status(screen) for word in ("writing", "thinking", "waiting", "loading", "stopping"))


def test_a_day_with_the_program(home_with_compiled_kernels: Path, tiny_qwen3_path: Path) -> None:
    model = shlex.quote(str(tiny_qwen3_path))
    with Tmux(home_with_compiled_kernels, {"QCHAT_SAMPLING_TEMPERATURE": "0", "QCHAT_THREADS": "2"}) as terminal:
        start(terminal, f"--model {model}")
        terminal.until(lambda screen: EMPTY in screen and "tiny-qwen3-q8_0" in screen)
        assert terminal.flags == "1 1 0"

        screen = ask(terminal, "What is the capital of France?", "The capital of France is Paris.")
        assert "▸ Thought for" in screen and "France has the capital Paris." not in screen
        assert "context " in screen and "of 2,048" in screen

        terminal.press("C-t")
        terminal.until(lambda screen: "▾ Thought for" in screen and "France has the capital Paris." in screen)
        terminal.press("C-t")
        terminal.until(lambda screen: "▸ Thought for" in screen and "France has the capital Paris." not in screen)

        terminal.press("M-e")
        terminal.until("edit the question")
        terminal.press("C-u")
        terminal.until(lambda screen: "capital of France?" not in screen.rpartition("╭")[2])
        screen = ask(terminal, "Repeat: apple river moon", "apple river moon")
        assert "‹ 2/2 ›" in screen and "Paris" not in screen

        terminal.press("C-r")
        terminal.until(
            lambda screen: screen.count("‹ 2/2 ›") == 2 and "apple river moon" in lines(screen) and not is_busy(screen)
        )
        terminal.press("M-Left")
        terminal.until(lambda screen: "‹ 1/2 ›" in screen and screen.count("‹ 2/2 ›") == 1)
        terminal.press("M-Up")
        terminal.press("M-Up")
        terminal.press("Left")
        terminal.until("The capital of France is Paris.")
        terminal.press("Right")
        terminal.until(lambda screen: "Paris" not in screen and "apple river moon" in screen)

        terminal.press("C-n")
        terminal.until(lambda screen: "qchat" in lines(screen))  # the welcome
        ask(terminal, "hi", "Hello! How can I help you?")

        terminal.press("C-s")
        terminal.until("Search in all chats")
        terminal.type("river")
        terminal.until(lambda screen: " found" in screen and "apple river moon" in screen)
        terminal.press("Enter")
        terminal.until(lambda screen: "▌" in screen and "Hello!" not in screen)  # the message is selected
        terminal.press("Escape")
        terminal.until(lambda screen: "▌" not in screen)

        terminal.type("/export out.md")
        terminal.press("Enter")
        terminal.until("written to")
        exported = (home_with_compiled_kernels / "out.md").read_text("utf-8")
        assert "apple river moon" in exported and "Paris" not in exported

        screen = leave(terminal)
        assert "apple river" not in screen and terminal.flags == "0 0 1"

        start(terminal, "--continue")
        terminal.until(lambda screen: "Hello! How can I help you?" in screen and "tiny-qwen3-q8_0" in screen)
        ask(terminal, "What is the capital of Italy?", "The capital of Italy is Rome.")
        leave(terminal)


def test_a_long_reply_is_stopped_and_the_next_one_comes(
    home_with_compiled_kernels: Path, tiny_qwen3_path: Path
) -> None:
    babble = {"TEMPERATURE": "100", "TOP_K": "0", "TOP_P": "1", "MIN_P": "0", "SEED": "5"}
    env = {f"QCHAT_SAMPLING_{name}": value for name, value in babble.items()}
    with Tmux(home_with_compiled_kernels, env | {"QCHAT_THINKING": "off"}) as terminal:
        start(terminal, f"--model {shlex.quote(str(tiny_qwen3_path))}")
        terminal.type("hi")
        terminal.press("Enter")
        terminal.until(lambda screen: "writing" in status(screen))
        terminal.press("Escape")
        screen = terminal.until(lambda screen: "stopped" in lines(screen) and not is_busy(screen))
        assert "of 2,048" not in status(screen)  # cut off long before its end
        terminal.type("/set temperature 0")
        terminal.press("Enter")
        terminal.until(EMPTY)
        terminal.type("and now?")
        terminal.press("Enter")
        terminal.until(lambda screen: "first after" in screen and not is_busy(screen))  # as a whole reply ends
        leave(terminal)
