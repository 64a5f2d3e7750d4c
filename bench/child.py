"""A process that measures when it is asked to: requests and answers are JSON objects, one a line.

Each engine runs in a process of its own, so that none inherits the other's threads, memory or environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any


class Child:
    """`python SCRIPT --serve ARGUMENTS`, which calls `serve`. Ready when made. Raises SystemExit if it ends early."""

    def __init__(self, name: str, script: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        self._name = name
        command = [sys.executable, script, "--serve", *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ) | environment
        )
        self.ready = self._answer()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} ended early")
        answer: dict[str, Any] = json.loads(line)
        return answer


def serve(ready: dict[str, Any], work: Callable[..., dict[str, Any]]) -> None:
    """The child's side: say `ready`, then answer every request with what `work(**request)` gives."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(work(**json.loads(line))), flush=True)
