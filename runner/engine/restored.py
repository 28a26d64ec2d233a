"""After a database was put back from a copy: what its open runs would do for the first time may be done already."""

from __future__ import annotations

from runner.contract import Action, Outcome
from runner.core import events as e
from runner.core.state import State
from runner.store.facts import Store

WRITES = ("do", "undo")
FORGOTTEN = "The database was put back from a copy since this run began: this may have been done already."


class Forgotten:
    """What is not in the log, of runs that were open when a person let the database go on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = store.restorations()

    def outcome(self, state: State, intent: e.CallIntended, action: Action) -> Outcome | None:
        """What is recorded instead of sending, where nothing was heard of this call since; None: it may be sent.

        A write is unknown, and goes on as after any call of which no answer came. Only a key may have lapsed meanwhile:
        whether it has is told by when the copy was made, not by an intent of today. Whatever a look before the first
        send would find may be ours, so that look is left to the one after it.
        """
        mine = [each for each in self._known if each.at >= state.started_at]
        if not mine or self._was_heard_of(state.run, intent, max(each.at for each in mine)):
            return None
        if intent.purpose == "find" and (intent.step, "do", intent.part) not in state.calls:
            return Outcome(result="applied", count=0)
        if intent.purpose not in WRITES:
            return None
        since = min(each.since for each in mine)
        must_look = action.effect != "keyed" or (intent.step, "find", intent.part) in state.calls
        has_lapsed = must_look or intent.at + intent.limit > since + action.key_life * 95 // 100
        return Outcome(result="unknown", reason="restored" if has_lapsed else "interrupted", summary=FORGOTTEN)

    def _was_heard_of(self, run: str, intent: e.CallIntended, since: int) -> bool:
        """Whether it had an outcome since, or a person has said what became of it."""
        asked = ""
        for row in self._store.log(run):
            event = row.event
            if isinstance(event, e.HandedOff) and (event.step, event.purpose, event.part) == intent.call:
                asked = event.handoff
            elif row.at >= since and (
                (isinstance(event, e.OutcomeEvent) and event.call == intent.call)
                or (isinstance(event, e.HandOffResolved) and event.handoff == asked)
            ):
                return True
        return False
