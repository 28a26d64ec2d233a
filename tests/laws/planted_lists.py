"""Planted mistakes about lists and called flows. A law must see each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import Any

import pytest

from runner.core import calls, closing, decide, fold, listings, paths, recall, scopes
from runner.core import events as e
from runner.core.commands import Record
from runner.core.paths import join, list_of, number_of
from runner.core.place import Place
from runner.core.state import State, freeze, replace, thaw
from tests.laws.planted import after, before, mistake


def reads(patch: pytest.MonkeyPatch, kind: type[e.Event], change: Callable[[State, State, Any], State]) -> None:
    """A fact is read in another way: `change(the state after it, the one before it, the fact)`."""
    right = fold._READERS[kind]

    def wrong(state: State, event: Any) -> State:
        before = freeze(thaw(state))
        return change(freeze(right(state, event)), before, event)

    patch.setattr(fold, "_READERS", {**fold._READERS, kind: wrong})


def verb(patch: pytest.MonkeyPatch, name: str, change: Callable[[Place], Place]) -> None:
    """A verb looks at another place."""
    right = scopes._VERBS[name]
    patch.setattr(scopes, "_VERBS", {**scopes._VERBS, name: lambda at: right(change(at))})


# --- items ---------------------------------------------------------------------------------------------------------


@mistake("items share their keys", "rows_undone")
def one_key_for_all_items(patch: pytest.MonkeyPatch) -> None:
    def wrong(**words: Any) -> Any:
        return (), {**words, "step": "/".join(part for part in words["step"].split("/") if not part.isdigit())}

    before(patch, calls, "make_key", wrong)


@mistake("an item that is resumed has its old keys", "rows_aside")
def resumed_with_old_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "generation_at", lambda state, path: 0)


@mistake("at_once is not read", "rows_stop")
def all_at_once(patch: pytest.MonkeyPatch) -> None:
    verb(patch, "each", lambda at: replaced(at, step=replaced(at.step, at_once=99)))


@mistake("whoever is under way makes room for the next item", "rows_stop")
def room_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scopes, "_in_doubt", lambda place, listing: len(listing.open))


@mistake("any number of items may wait for a person", "rows_hands")
def any_number_in_doubt(patch: pytest.MonkeyPatch) -> None:
    right = scopes._in_doubt

    def wrong(place: Place, listing: Any) -> Any:
        count = right(place, listing)
        return type("Few", (int,), {"__lt__": lambda self, other: True})(count)

    patch.setattr(scopes, "_in_doubt", wrong)


@mistake("the last item begins first", "rows_undone")
def last_item_first(patch: pytest.MonkeyPatch) -> None:
    def wrong(started: Any, place: Place, listing: Any) -> Any:
        if started is None or listing.again:
            return started
        number = listing.items.count - number_of(started.event.step) + 1
        if number in listing.open or number <= listing.started - len(listing.open):
            return started
        return Record(event=replaced(started.event, step=join(place.path, str(number))))

    after(patch, scopes, "_next_item", wrong)


@mistake("an item is set aside before it is made good", "rows_aside")
def aside_at_once(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, item: str, now: int) -> Any:
        scope = state.scopes[item]
        is_out = any(call.is_open for name, call in state.calls.items() if name[0].startswith(f"{item}/"))
        if not scope.closed or is_out or scope.failure is None:
            return commands
        return (Record(event=e.ItemSetAside(at=now, step=item, reason=scope.failure.summary, name=scope.name)),)

    after(patch, scopes, "close_item", wrong)


@mistake("an item that fails alone ends the run", "rows_aside")
def item_ends_the_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "catcher_of", lambda state, path: "")


@mistake("every item fails alone", "rows_stop")
def every_item_alone(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, place: Place) -> Any:
        return Record(event=replaced(commands.event, catches=True))

    after(patch, scopes, "_begin_list", wrong)


@mistake("of nested lists the outer item ends for a failure in the inner one", "rows_nested_undone")
def outer_item_ends(patch: pytest.MonkeyPatch) -> None:
    right = paths.catcher_of

    def wrong(state: State, path: str) -> str:
        found = right(state, path)
        outer = "/".join(found.split("/")[:2])
        return outer if outer in state.scopes and state.scopes[outer].catches else found

    patch.setattr(fold, "catcher_of", wrong)


@mistake("nobody is asked about items that were set aside", "rows_aside")
def aside_and_forgotten(patch: pytest.MonkeyPatch) -> None:
    for room in (scopes, decide):
        patch.setattr(room, "leave", lambda *args: None)


@mistake("whoever resumes one item has another done again", "rows_aside")
def another_again(patch: pytest.MonkeyPatch) -> None:
    def wrong(after: State, before: State, event: e.ItemResumed) -> State:
        path = list_of(event.step)
        listing = after.lists[path]
        done = next(n for n in range(1, listing.items.count + 1) if n not in (*listing.open, *before.lists[path].aside))
        return replace(after, lists={**after.lists, path: replace(listing, again=(*listing.again, (done, 9)))})

    reads(patch, e.ItemResumed, wrong)


@mistake("what a person leaves set aside is not said at the end", "rows_aside")
def accepted_unsaid(patch: pytest.MonkeyPatch) -> None:
    for kind in (e.ItemAccepted, e.HandOffResolved):
        reads(patch, kind, lambda after, before, event: replace(after, accepted=0))


@mistake("a list ends with the first of its items", "rows_stop")
def ends_with_the_first(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, at: Place) -> Any:
        listing = at.state.lists.get(at.path)
        return scopes._ended(at) if listing is not None and listing.done else commands

    right = scopes._VERBS["each"]
    patch.setattr(scopes, "_VERBS", {**scopes._VERBS, "each": lambda at: wrong(right(at), at)})


@mistake("in an item that is closed 'compensate' is offered again", "rows_aside_undone", "rows_parallel")
def compensate_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "is_closed_at", lambda state, path: state.root.closed)


@mistake("the timer of an item's compensation stands still while the run waits for a call", "rows_refused")
def undo_timer_stands_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "fire_due", lambda state, now, scope: ())


# --- making ended items good ---------------------------------------------------------------------------------------


@mistake("items that have ended are not made good", "rows_undone")
def ended_items_stand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_lists_left", lambda state, scope: [])


@mistake("all ended items are read back at once", "rows_many")
def no_pages(patch: pytest.MonkeyPatch) -> None:
    right = recall.LogSource.newest
    patch.setattr(recall.LogSource, "newest", lambda self, scope, before, limit: right(self, scope, before, 99))


@mistake("an item that was read back is not let go", "rows_many")
def never_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listings, "without_inside", lambda state, item: state)


@mistake("what became of an item before the crash is not read back", "rows_undone", "rows_many")
def read_up_to_its_end(patch: pytest.MonkeyPatch) -> None:
    def wrong(facts: Any, *_: Any, **__: Any) -> Any:
        found = {}
        for item, one in facts.items():
            ends = [at for at, (_, event) in enumerate(one) if event.step == item and isinstance(event, e.ScopeEnded)]
            found[item] = one[: ends[0] + 1] if ends else one
        return found

    after(patch, recall.LogSource, "facts", lambda facts, *args, **words: wrong(facts))


@mistake("effects that were made good before are counted again", "rows_nested_undone", "rows_aside_undone")
def counted_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recall, "_at_its_end", lambda state, *_: state)


@mistake("items that were set aside are read back to be made good", "rows_aside_undone")
def aside_read_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recall, "_is_meant", lambda state, item: True)


@mistake("what is not read back yet is not waited for", "rows_parallel")
def page_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_waits_for_hidden", lambda *args: False)


@mistake("effects are made good in the order of their names", "rows_undone")
def by_name(patch: pytest.MonkeyPatch) -> None:
    after(patch, closing, "_turns", lambda paths, *_: sorted(paths))


@mistake("after a crash an item that was being made good is not known again", "rows_undone", "rows_nested_undone")
def partly_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "forgotten_item", lambda state, path: "")


# --- called flows --------------------------------------------------------------------------------------------------


@mistake("what a called flow did is not made good together", "called_undone", "called_rows")
def not_as_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_calls_around", lambda path, scope: [])


@mistake("a called flow moves back when its newest item has been made good", "called_rows", "called_list")
def unit_moves_back(patch: pytest.MonkeyPatch) -> None:
    def wrong(after: State, before: State, event: e.ScopeEnded) -> State:
        return replace(after, scopes={path: replace(scope, newest=0) for path, scope in after.scopes.items()})

    reads(patch, e.ScopeEnded, wrong)


@mistake("a called flow ends before its last step", "called_deep", "rows_call")
def call_ends_early(patch: pytest.MonkeyPatch) -> None:
    def cut(at: Place) -> Place:
        flow = at.bundle.called[at.step.flow]
        called = {**at.bundle.called, flow.id: replaced(flow, steps=flow.steps[:-1])}
        return replaced(at, bundle=replaced(at.bundle, called=called))

    verb(patch, "call", cut)


@mistake("a called flow that has ended is made good although the run goes on", "called_undone")
def undone_when_called(patch: pytest.MonkeyPatch) -> None:
    def wrong(commands: Any, bundle: Any, state: State, now: int) -> Any:
        paths = closing.applied_paths(state, "log") if not commands else []
        ended = [path for path in paths if state.steps["log"].status == "done" and path not in state.undo]
        return closing.compensate(bundle, state, "log", now) if ended else commands

    after(patch, decide, "_forward", wrong)


@mistake("an inner flow's failure ends nothing but the step that called it", "called_deep", "rows_call")
def call_swallows(patch: pytest.MonkeyPatch) -> None:
    def wrong(after: State, before: State, event: e.StepFailed) -> State:
        return (
            before if "/" in event.step and not event.goes_on and not list_of(event.step.rpartition("/")[0]) else after
        )

    def skipped(after: State, before: State, event: e.StepFailed) -> State:
        state = wrong(after, before, event)
        if state is after:
            return after
        return replace(state, steps={**state.steps, event.step: replace(after.steps[event.step], status="skipped")})

    reads(patch, e.StepFailed, skipped)
