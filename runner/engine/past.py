"""What a run has done so far, out of the store: its state, and the ended items of its lists."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from runner.core import events as e
from runner.core.fold import fold
from runner.core.paths import around, outwards
from runner.core.state import State, replace
from runner.store.facts import LogEnd, Logs, Store

PAGE = 1_000
"""Rows of a log that are read at a time."""
LONG_LOG = 200
HANDED = 1_000
KEPT = 64
"""Of so many runs with a log at least that long the state is kept."""

Known = tuple[State, LogEnd]
"""A run's state, and the end of the log that it was read to."""


def read_state(store: Logs, run: str, known: Known | None = None) -> Known:
    """A run's state out of its log, from what is known of it on; a clean-up run begins where the run it cleans up after
    ended. Raises NotFound.
    """
    while True:
        known, is_all = _read_page(store, run, known)
        if is_all:
            return known


def _read_page(store: Logs, run: str, known: Known | None) -> tuple[Known, bool]:
    state, end = known or (State(), LogEnd(seq=0, hash=""))
    rows = store.log(run, after=end.seq, limit=PAGE)
    for row in rows:
        if isinstance(row.event, e.RunStarted) and row.event.continues:
            state, _ = read_state(store, row.event.continues)
            state = replace(state, seq=row.seq - 1)
        if row.event is not None:
            state = fold(state, row.event)
    if rows:
        end = LogEnd(seq=rows[-1].seq, hash=rows[-1].hash)
    return (state, end), len(rows) < PAGE


def read_on(store: Logs, run: str, kept: dict[str, Known]) -> State:
    """The same for who only looks: what is `kept` of long logs is read on. Raises NotFound."""
    known = kept.pop(run, None)
    state, end = read_state(store, run, known)
    if known is not None and state.is_erased:  # what was erased is in no state any more
        state, end = read_state(store, run)
    if state.seq > LONG_LOG:
        kept[run] = (state, end)
        for oldest in list(kept)[:-KEPT]:
            kept.pop(oldest, None)
    return state


class Past:
    """The states that the engine knows. Those of long logs are kept, so that they are not read anew each time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begun: dict[str, Known] = {}
        self._handed: OrderedDict[str, Known] = OrderedDict()
        self._kept: OrderedDict[str, Known] = OrderedDict()

    def begin(self, run: str, state: State, end: LogEnd) -> None:
        """A run was just started here."""
        self._begun[run] = (state, end)

    def has_begun(self, run: str) -> bool:
        """Whether it was just started here."""
        return run in self._begun

    def hand(self, run: str, state: State, end: LogEnd) -> None:
        """The run rested and was just reported about: whoever drives it next need not read what the reporter read."""
        if not any(call.is_open for call in state.calls.values()):
            self._handed[run] = (state, end)
            if len(self._handed) > HANDED:
                self._handed.popitem(last=False)

    def leave(self, run: str) -> None:
        """It is not driven here."""
        self._handed.pop(run, None)

    async def take_up(self, run: str) -> Known:
        """A run's state, to be driven: without a look at the log where it has just begun, or was handed over. Raises
        NotFound."""
        known = self._begun.pop(run, None) or self._handed.pop(run, None)
        return known or await self.read(run)

    def keep(self, run: str, state: State, end: LogEnd) -> None:
        """This is what has become of the run."""
        if state.has_ended or state.is_erased:
            self._kept.pop(run, None)
        elif state.seq > LONG_LOG:
            self._kept[run] = (state, end)
            self._kept.move_to_end(run)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    async def read(self, run: str, known: Known | None = None) -> Known:
        """The run's state as the log has it now. Others have their turn while a long log is read. Raises NotFound."""
        known = known or self._kept.get(run)
        found = await self._read_on(run, known)
        if known is not None and found[0].is_erased:  # what was erased is in no state any more
            found = await self._read_on(run, None)
        self.keep(run, *found)
        return found

    async def _read_on(self, run: str, known: Known | None) -> Known:
        while True:
            known, is_all = _read_page(self._store, run, known)
            if is_all:
                return known
            await asyncio.sleep(0)


class StoredItems:
    """Ended items of lists, read out of the store. Those of a clean-up run stand in the log of the run before it."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        self._runs = [state.run]
        while state.continues and (before := store.run(self._runs[0]).continues):
            self._runs.insert(0, before)
        self._made_good: dict[str, AbstractSet[str]] = {}

    def newest(self, scope: str, before: int | None, limit: int) -> Sequence[tuple[int, str]]:
        """See `recall.Source`."""
        return self._store.newest_effects(self._runs, scope, before, limit)

    def facts(self, items: Sequence[str], *, whole: bool) -> Mapping[str, Sequence[tuple[int, e.Event]]]:
        """See `recall.Source`."""
        found: dict[str, list[tuple[int, e.Event]]] = {item: [] for item in items}
        for run in self._runs:
            if run != self._runs[0]:
                begins = [(row.seq, row.event) for row in self._store.log(run, limit=1) if row.event is not None]
                for facts in found.values():
                    facts += begins
            is_before = run != self._runs[-1]
            if whole or is_before or len(self._runs) == 1:
                beyond = (whole or is_before) and self._go_beyond(run, items)
                for item, about in self._store.facts_about(run, items, whole=beyond).items():
                    found[item] += about
        return found

    def _go_beyond(self, run: str, items: Sequence[str]) -> bool:
        """Whether a scope around any of these items was being made good, so that facts may stand behind its end."""
        scopes = self._made_good.get(run) or self._store.being_made_good(run)
        if run != self._runs[-1]:  # it has ended
            self._made_good[run] = scopes
        return any(scope in scopes for item in items for scope in outwards(around(item)))
