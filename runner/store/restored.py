"""What the site's chain says of databases that were put back from a copy, and of what a person has answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from runner.core.events import Restored
from runner.store.anchor import Restoration
from runner.store.log import SITE
from runner.store.tables import log

GO_ON, MOVED = "go on", "moved"


def restorations(connection: Connection) -> Sequence[Restoration]:
    """For `Views.ask`: all of them, oldest first; the last one with `at` 0 while nobody has answered.

    What was only moved is none of them.
    """
    found: list[Restoration] = []
    waiting: Restoration | None = None
    asked = select(log.c.at, log.c.data).where(log.c.run_id == SITE, log.c.type == Restored.__name__)
    for at, data in connection.execute(asked.order_by(log.c.seq)):
        told = json.loads(data)["data"]
        if "answer" not in told:
            since = int(told.get("since", 0))
            since = min(since, waiting.since) if waiting else since
            whole = bool(told.get("whole")) and (waiting is None or waiting.whole)
            waiting = Restoration(at=0, since=since, why=str(told["why"]), whole=whole)
        else:
            if told["answer"] == GO_ON:
                found.append(replace(waiting or Restoration(at=0, since=0, why="", whole=False), at=at))
            waiting = None
    return [*found, *([waiting] if waiting else [])]
