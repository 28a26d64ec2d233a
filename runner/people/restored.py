"""A person's word that a database which was put back from a copy may be used."""

from __future__ import annotations

import contextlib
from pathlib import Path

from runner.clock import Clock
from runner.core import events as e
from runner.engine.past import read_state
from runner.errors import EngineBusy, NotPossible
from runner.store.lock import EngineLock
from runner.store.sql import open_store

AFTER_RESTORE = "The database was put back from a copy: what this run did since is not in its log."


async def go_on_restored(folder: Path, url: str, clock: Clock, by: str) -> list[str]:
    """Pauses every open run, so that each is looked at before it goes on, and lets the project go on.

    Answers their ids. Raises EngineBusy, NotPossible.
    """
    lock = EngineLock(folder)
    if not lock.acquire():
        raise EngineBusy("another process drives this project; stop it first")
    with contextlib.ExitStack() as opened:
        opened.callback(lock.release)
        store = open_store(folder, clock=clock, writable=True, lock=lock, url=url)
        opened.callback(store.close)
        if not store.restored:
            raise NotPossible(f"{store.name} was not put back from a copy, so there is nothing to confirm")
        paused: list[str] = []
        for run in store.open_runs():
            state, _ = read_state(store, run)
            if not state.is_paused:
                pause = e.RunPaused(at=max(clock.now(), state.at), by=by, reason=AFTER_RESTORE)
                await store.report(run, pause)
                paused.append(run)
        await store.go_on_restored(by)
        return paused
