"""What a run has done so far, out of the store: its state, and the ended items of its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.core import events as e
from runner.core.fold import fold
from runner.core.state import State, replace
from runner.store.facts import LogEnd, Logs, Store

PAGE = 1_000
"""Rows of a log that are read at a time."""


def read_state(store: Logs, run: str, known: tuple[State, LogEnd] | None = None) -> tuple[State, LogEnd]:
    """A run's state out of its log, from what is known of it on; a clean-up run begins where the run it cleans up after
    ended. Raises NotFound.
    """
    state, end = known or (State(), LogEnd(seq=0, hash=""))
    while True:
        rows = store.log(run, after=end.seq, limit=PAGE)
        for row in rows:
            if isinstance(row.event, e.RunStarted) and row.event.continues:
                state, _ = read_state(store, row.event.continues)
                state = replace(state, seq=row.seq - 1)
            if row.event is not None:
                state = fold(state, row.event)
        if rows:
            end = LogEnd(seq=rows[-1].seq, hash=rows[-1].hash)
        if len(rows) < PAGE:
            return state, end


class StoredItems:
    """Ended items of lists, read out of the store. Those of a clean-up run stand in the log of the run before it."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        self._runs = [state.run]
        while state.continues and (before := store.run(self._runs[0]).continues):
            self._runs.insert(0, before)

    def newest(self, scope: str, before: int | None, limit: int) -> Sequence[tuple[int, str]]:
        """See `recall.Source`."""
        wanted = ("pending", "stands") if len(self._runs) > 1 else ("pending",)
        return self._store.newest_effects(self._runs[0], scope, before, limit, wanted)

    def facts(self, items: Sequence[str], *, whole: bool) -> Mapping[str, Sequence[tuple[int, e.Event]]]:
        """See `recall.Source`."""
        found: dict[str, list[tuple[int, e.Event]]] = {item: [] for item in items}
        for run in self._runs:
            begins = [(row.seq, row.event) for row in self._store.log(run, limit=1) if row.event is not None]
            for item, facts in self._store.facts_about(run, items, whole=whole).items():
                found[item] += [*begins[: run != self._runs[0]], *facts]
        return found
