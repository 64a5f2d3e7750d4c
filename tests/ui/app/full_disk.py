"""D03 in the app on a disk that is really full: a message sent then is told of, not lost, and saved once there is room.

Run by test_not_saved.py in a process for which QCHAT_HOME is a small disk. Writes the chat as it was saved, as JSON.

    python -m tests.ui.app.full_disk
"""

from __future__ import annotations

import json
import sys

from app.backends.base import Answer
from app.chat import saver
from app.chat.store import Store
from app.settings import paths
from app.ui import app as the_app
from tests.small_disk import fill
from tests.ui.app.harness import ScriptedBackend, ask, run, running, shown, until


async def main() -> None:
    saver.FIRST_RETRY_S, saver.LAST_RETRY_S, the_app.SAVE_WITHIN_S = 0.02, 0.1, 0.3
    backend = ScriptedBackend([Answer("first reply")], [Answer(line := "A line of the reply.\n\n" * 4000)])
    async with running(backend) as (app, pilot):
        await ask(app, pilot, "one")
        assert await app.saver.flush(5)
        part = paths().data_dir / "part of a model"
        fill(part)
        await ask(app, pilot, "two")
        await until(pilot, lambda: "not saved: cannot use the chats: the disk is full" in shown(app))
        assert "A line of the reply." in shown(app)
        assert contents()[:2] == ["one", "first reply"] and line not in contents()
        part.unlink()
        await until(pilot, lambda: "not saved" not in shown(app))
        assert await app.saver.flush(5)
    assert app.left_unsaved == ""
    json.dump(contents(), sys.stdout)


def contents() -> list[str]:
    store = Store.open_default(print)
    try:
        return [message.content for message in store.messages(store.session("last").id)]
    finally:
        store.close()


if __name__ == "__main__":
    run(main)
