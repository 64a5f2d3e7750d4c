"""The command palette: the actions of the registry, found by their names."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from app.ui.actions import ACTIONS, Action

_WITHOUT = frozenset({"palette", "stop", "chat_page_up", "chat_page_down"})  # keys only make sense as keys


class Actions(Provider):
    """Every action that needs no argument and no selection."""

    async def discover(self) -> Hits:
        for action in _offered():
            yield DiscoveryHit(action.title, self._doing(action), help=action.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in _offered():
            score = max(matcher.match(action.title), matcher.match(action.help) / 2)
            if score > 0:
                yield Hit(score, matcher.highlight(action.title), self._doing(action), help=action.help)

    def _doing(self, action: Action) -> partial[Coroutine[Any, Any, None]]:
        return partial(self.screen.run_action, action.id)


def _offered() -> list[Action]:
    return [a for a in ACTIONS if a.where == "anywhere" and a.id not in _WITHOUT and a.argument[:1] in ("", "[")]
