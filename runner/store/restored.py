"""What the site's chain says of databases that were put back from a copy, and of what a person has answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, select

from runner.core.events import Restored
from runner.store.anchor import Restoration, read_anchor, why_elsewhere, why_restored
from runner.store.log import SITE
from runner.store.site import read_site
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


def told_resting(name: str, why: str, *, may_be_moved: bool) -> str:
    """Why nothing is done with a database, and what can be said to it."""
    if why and may_be_moved:
        return (
            f"{name} rests: {why}; if the other one is used no more, say `amends db go-on --moved`, and the runs go on "
            "here; else `amends db go-on` pauses each open run first, so that nothing is sent twice"
        )
    return (
        f"{name} was put back from a copy, so what was done since is not in its log; look at the open runs (`amends "
        "runs list`), then `amends db go-on` pauses each and lets the project go on"
    )


def why_it_rests(connection: Connection, name: str, place: Path | None) -> str:
    """For `Views.ask`: as `told_resting`; empty where it does not rest.

    `place` is the state folder of a database that is a file: what an engine would find there is seen before it comes.
    """
    known = read_anchor(place) if place is not None else None  # before the database, which may go on meanwhile
    site = read_site(connection)
    if site.restored_at is not None:
        waiting = [each for each in restorations(connection) if not each.at]
        why, whole = (waiting[-1].why, waiting[-1].whole) if waiting else ("", False)
    elif place is not None and site.commit_no:
        elsewhere = why_elsewhere(known, place)
        why = why_restored(known, site.database_id, site.commit_no) or elsewhere
        whole = why == elsewhere
        if not why:
            return ""
    else:
        return ""
    return told_resting(name, why, may_be_moved=whole)
