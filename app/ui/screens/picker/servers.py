"""The servers of the model picker: each is asked for its models beside the screen, in a thread that nothing waits for.

A server that does not answer costs nobody a moment: the list is there before any answer, and so is leaving it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.hub.choices import Choice, at_server, unreachable_server
from app.settings import Settings

if TYPE_CHECKING:
    from app.backends.probe import Look

WITHIN_S = 4.0  # then a server counts as one that is not there


def ask_servers(settings: Settings, report: Callable[[str, list[Choice]], object]) -> None:
    """Ask every server of `settings`; `report` is called in a thread, with a server's name and its rows."""
    for name in settings.servers:
        threading.Thread(target=_ask, args=(settings, name, report), name=f"qchat-{name}", daemon=True).start()


def _ask(settings: Settings, name: str, report: Callable[[str, list[Choice]], object]) -> None:
    from app.backends.probe import look_at_server  # noqa: PLC0415 - a quarter of a second that the screen need not wait

    look = asyncio.run(look_at_server(settings, name, WITHIN_S, try_it=False))
    with contextlib.suppress(RuntimeError):  # the app has ended
        report(name, _rows(settings, look))


def _rows(settings: Settings, look: Look) -> list[Choice]:
    table = settings.servers[look.name]
    if look.problem or look.models is None:
        problem = look.problem.removeprefix(f"{look.name} ")
        said = problem if look.state == "unreachable" else f"{look.state}: {problem}"
        return [unreachable_server(table, said)]
    return at_server(table, look.models)
