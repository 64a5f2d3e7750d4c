"""The model picker of the whole program in a real tmux, 80 by 24: other programs' models, a repository, a download."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gguf_files import make_model
from tests.home import home_with_kernels, qchat_home
from tests.hub.download.scripted import Hub, hub, serve_file, sha256
from tests.hub.library.stores import in_ollama
from tests.ui.terminal.test_program import QCHAT
from tests.ui.terminal.tmux import Tmux

__all__ = ["home_with_kernels", "hub", "qchat_home"]

BODY = make_model(context_length=512).to_bytes()


def test_a_model_is_found_elsewhere_and_another_is_fetched(qchat_home: Path, tmp_path: Path, hub: Hub) -> None:
    in_ollama(tmp_path / "ollama", "registry.ollama.ai/library/qwen3/0.6b")
    listing = [{"type": "file", "path": "m-Q8_0.gguf", "size": len(BODY), "lfs": {"oid": sha256(BODY)}}]
    hub.scripts["/api/models/o/r/tree/main"] = lambda request: request.answer(200, json.dumps(listing).encode())
    hub.scripts["/o/r/resolve/main/m-Q8_0.gguf"] = serve_file(BODY)
    qchat_home.mkdir(parents=True)
    env = {
        "QCHAT_OTHER_STORES": "true",
        "OLLAMA_MODELS": str(tmp_path / "ollama"),
        "HF_HUB_CACHE": str(tmp_path / "none"),
        "HF_ENDPOINT": hub.url,
    }
    with Tmux(qchat_home, env, columns=80, rows=24) as terminal:
        terminal.command(f"clear; {QCHAT} --model")
        terminal.until(lambda screen: "Choose a model" in screen and "Ollama" in screen and "fits" in screen)
        terminal.type("hf:o/r")
        terminal.until("Enter asks")
        terminal.press("Enter")
        terminal.until(lambda screen: "m-Q8_0.gguf" in screen and "Enter downloads it" in screen)
        terminal.press("Enter")
        screen = terminal.until(lambda screen: "verified, sha256" in screen and "Enter chooses it" in screen)
        assert all(len(line) <= 80 for line in screen.splitlines())
        terminal.press("Enter")
        terminal.until(lambda screen: "Choose a model" not in screen and "m-Q8_0" in screen)
        terminal.press("C-q")
    assert (qchat_home / "data" / "models" / "m-Q8_0.gguf").read_bytes() == BODY
