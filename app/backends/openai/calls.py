"""Tool calls put together from the pieces in which servers stream them.

The protocol numbers the calls by `index`; servers leave it out, give every call the same one, or repeat the name with
every piece. So a piece belongs to the call with its id, else to the one with its index, else to the last; and whatever
carries a name after the last call was complete begins a new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.templates.tool_call import CALL, END_CALL
from app.unicode import well_formed


@dataclass
class _Call:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> bool:
        """Whether the arguments are a JSON value already."""
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class CallAssembler:
    """Push the pieces; `texts` are the calls, each as a model would have written it."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def push(self, piece: Mapping[str, Any]) -> None:
        """One entry of `tool_calls`."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = function.get("name"), function.get("arguments")
        name = name if isinstance(name, str) else ""
        call = self._of(piece, name)
        if not call.name.endswith(name):  # some repeat it
            call.name += name
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif isinstance(arguments, dict):
            call.arguments.append(json.dumps(arguments, ensure_ascii=False))

    def texts(self) -> list[str]:
        """Every call as `<tool_call>` and JSON. What its arguments really are shows when that is read."""
        return [_written(call) for call in self._calls if call.name or call.arguments]

    def _of(self, piece: Mapping[str, Any], name: str) -> _Call:
        index, call_id = piece.get("index"), piece.get("id")
        index = index if isinstance(index, int) else None
        call_id = call_id if isinstance(call_id, str) else ""
        for call in reversed(self._calls):
            same_id = call_id != "" and call_id == call.id
            same_index = index is not None and index == call.index and (not call_id or call.id in ("", call_id))
            if same_id or same_index or (index is None and not call_id):
                if name and not same_id and call.name and call.whole():
                    break
                call.id = call.id or call_id
                return call
        self._calls.append(_Call(index, call_id))
        return self._calls[-1]


def _written(call: _Call) -> str:
    arguments = well_formed("".join(call.arguments)).strip() or "{}"
    name = json.dumps(well_formed(call.name), ensure_ascii=False)
    return f'{CALL}\n{{"name": {name}, "arguments": {arguments}}}\n{END_CALL}'
