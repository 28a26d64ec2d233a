"""A person's word that a database which was put back from a copy may be used."""

from __future__ import annotations

import contextlib
from pathlib import Path

from runner.clock import Clock
from runner.core import events as e
from runner.core.fold import fold
from runner.engine.advance import columns_of
from runner.engine.past import read_state
from runner.errors import EngineBusy, NotPossible
from runner.store.lock import EngineLock
from runner.store.restored import told_resting
from runner.store.sql import SqlStore, open_store

AFTER_RESTORE = "The database was put back from a copy: what this run did since is not in its log."


def told_restored(store: SqlStore) -> str:
    """Why nothing is done with this database, and what can be said to it; it is `restored`."""
    return told_resting(store.name, store.why_restored, may_be_moved=may_be_moved(store))


async def go_on_restored(folder: Path, url: str, clock: Clock, by: str, *, moved: bool = False) -> list[str]:
    """Pauses every open run, so that each is looked at before it goes on, and lets the project go on.

    Answers their ids. `moved`: the folder was moved here whole, and nobody goes on with it where it was; then its runs
    just go on. Raises EngineBusy, NotPossible.
    """
    lock = EngineLock(folder)
    if not lock.acquire():
        raise EngineBusy("another process drives this project; stop it first")
    with contextlib.ExitStack() as opened:
        opened.callback(lock.release)
        store = open_store(folder, clock=clock, writable=True, lock=lock, url=url)
        opened.callback(store.close)
        return await let_go_on(store, clock, by, moved=moved)


async def let_go_on(store: SqlStore, clock: Clock, by: str, *, moved: bool) -> list[str]:
    """As `go_on_restored`, with the store that is open for writing. Raises NotPossible."""
    if not store.restored:
        raise NotPossible(f"{store.name} was not put back from a copy, so there is nothing to confirm")
    if moved and not may_be_moved(store):
        raise NotPossible(f"{store.name} was put back from a copy, it was not only moved; {store.why_restored}")
    paused: list[str] = []
    for run in () if moved else store.open_runs():
        state, end = read_state(store, run)
        if not state.is_paused:
            pause = e.RunPaused(at=max(clock.now(), state.at), by=by, reason=AFTER_RESTORE)
            # What lists say comes first: reported after it, the run still has its look by the next engine.
            await store.write_columns(run, end.seq, columns_of(fold(state, pause)))
            await store.report(run, pause)
            paused.append(run)
    await store.go_on_restored(by, moved=moved)
    return paused


def may_be_moved(store: SqlStore) -> bool:
    """Whether nothing is missing in it, so that it may only have been moved."""
    return all(each.whole for each in store.restorations() if not each.at)
