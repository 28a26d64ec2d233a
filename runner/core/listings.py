"""What the log says of scopes: lists and their items, and the flows that are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from runner.core import events as e
from runner.core.changes import put, set_step, withdraw
from runner.core.items import Items
from runner.core.paths import around, is_in, list_of, number_of, outwards
from runner.core.state import Aside, Listing, Scope, State, replace


def _listing(state: State, path: str) -> Listing:
    """The list; an empty one where the fact that began it was erased."""
    return state.lists.get(path) or Listing(items=Items(()))


def read_started(state: State, event: e.ScopeStarted) -> State:
    return _SCOPES[event.kind](state, event)


def _parallel_started(state: State, event: e.ScopeStarted) -> State:
    return set_step(state, event.step)


def _list_started(state: State, event: e.ScopeStarted) -> State:
    listing = Listing(items=Items(event.value), catches=event.catches)
    return set_step(replace(state, lists=put(state.lists, event.step, listing)), event.step)


def _item_started(state: State, event: e.ScopeStarted) -> State:
    path, number = list_of(event.step), number_of(event.step)
    listing = _listing(state, path)
    again = listing.again[any(first == number for first, _ in listing.again[:1]) :]
    listing = replace(
        listing, started=max(listing.started, number), open=(*listing.open, number), again=again
    )  # fmt: skip
    generation = max(event.generation, _generation_around(state, event.step))
    scope = Scope(kind="item", name=event.name, catches=listing.catches, generation=generation)
    return replace(state, lists=put(state.lists, path, listing), scopes=put(state.scopes, event.step, scope))


def _call_started(state: State, event: e.ScopeStarted) -> State:
    generation = _generation_around(state, event.step)
    scope = Scope(kind="call", name=event.name, inputs=event.value, generation=generation)
    state = replace(state, scopes=put(state.scopes, event.step, scope))
    return set_step(state, event.step, input=event.value)


def _agent_started(state: State, event: e.ScopeStarted) -> State:
    done = 0
    while f"{event.step}/{done + 1}" in state.scopes:
        done += 1
    return set_step(state, event.step, status="open", input=event.value or {}, begun_after=done)


def _move_started(state: State, event: e.ScopeStarted) -> State:
    kind: Literal["turn", "tool"] = "tool" if event.kind == "tool" else "turn"
    scope = Scope(
        kind=kind, name=event.name, inputs=event.value or {"input": {}, "wrong": ""},
        generation=_generation_around(state, event.step),
    )  # fmt: skip
    return replace(state, scopes=put(state.scopes, event.step, scope))


def _generation_around(state: State, scope: str) -> int:
    return state.scopes.get(around(scope), Scope()).generation


_SCOPES: Mapping[str, Callable[[State, e.ScopeStarted], State]] = {
    "parallel": _parallel_started,
    "each": _list_started,
    "item": _item_started,
    "call": _call_started,
    "agent": _agent_started,
    "turn": _move_started,
    "tool": _move_started,
}


def read_ended(state: State, event: e.ScopeEnded) -> State:
    if event.kind == "each":
        listing = _listing(state, event.step)
        aside = [
            {"item": listing.items[number], "name": each.name, "reason": each.reason}
            for number, each in sorted(listing.aside.items())
        ]
        output = {"done": listing.done, "set_aside": aside}
        return set_step(state, event.step, status="done", outcome="done", output=output)
    if event.kind != "item":
        output = event.output or {}
        return set_step(state, event.step, status="done", outcome=event.outcome, output=output)
    if event.outcome == "done":
        return leave_item(state, event.step, done=1)
    if event.outcome == "ended":
        return leave_item(state, event.step)
    state = leave_item(state, event.step, made_good=event.effects)
    around_it = [scope for scope in outwards(around(event.step)) if scope in state.scopes]
    scopes = {
        scope: replace(state.scopes[scope], newest=max(state.scopes[scope].newest, event.newest)) for scope in around_it
    }
    return replace(state, scopes={**state.scopes, **scopes})


def read_set_aside(state: State, event: e.ItemSetAside) -> State:
    path, number = list_of(event.step), number_of(event.step)
    failure = state.scopes.get(event.step, Scope()).failure
    before = _listing(state, path).left.get("stands", 0)
    state = leave_item(state, event.step)
    listing = _listing(state, path)
    aside = Aside(
        name=event.name, reason=event.reason, generation=listing.top + 1, step=failure.step if failure else "",
        stands=listing.left.get("stands", 0) - before,
    )  # fmt: skip
    listing = replace(listing, aside=put(listing.aside, number, aside))
    return replace(state, lists=put(state.lists, path, listing))


def read_resumed(state: State, event: e.ItemResumed) -> State:
    return settle_aside(state, list_of(event.step), (number_of(event.step),), is_resumed=True)


def read_accepted(state: State, event: e.ItemAccepted) -> State:
    return settle_aside(state, list_of(event.step), (number_of(event.step),), is_resumed=False)


def leave_item(state: State, item: str, *, done: int = 0, made_good: Mapping[str, int] | None = None) -> State:
    """An item leaves the state; its list counts what it did. `made_good`: it had been counted as ended before, and its
    effects have these dispositions now.
    """
    path = list_of(item)
    listing = _listing(state, path)
    inner = [each for name, each in state.lists.items() if is_in(name, item)]
    left = dict(listing.left)
    if made_good is None:
        gone = [each.left for each in inner]
        gone += [{effect.disposition: 1} for effect in state.effects.values() if is_in(effect.path, item)]
        for counts in gone:
            for name, count in counts.items():
                left[name] = left.get(name, 0) + count
    else:
        left["pending"] = left.get("pending", 0) - sum(made_good.values())
        for name, count in made_good.items():
            left[name] = left.get(name, 0) + count
    generations = [call.generation for name, call in state.calls.items() if is_in(name[0], item)]
    scope = state.scopes.get(item)
    top = max([listing.top, scope.generation if scope else 0, *generations, *(each.top for each in inner)])
    number = number_of(item)
    listing = replace(
        listing, left=left, top=top, done=listing.done + done,
        open=tuple(each for each in listing.open if each != number),
    )  # fmt: skip
    return replace(
        without_inside(state, item),
        lists=put({name: each for name, each in state.lists.items() if not is_in(name, item)}, path, listing),
    )


def without_inside(state: State, item: str) -> State:
    """The state without the item and all that stands in it; the lists are left."""
    return replace(
        state,
        steps={path: step for path, step in state.steps.items() if not is_in(path, item)},
        calls={name: call for name, call in state.calls.items() if not is_in(name[0], item)},
        undo={path: undo for path, undo in state.undo.items() if not is_in(path, item)},
        handoffs={name: each for name, each in state.handoffs.items() if not is_in(each.step, item)},
        gates={name: each for name, each in state.gates.items() if not is_in(name, item)},
        effects={no: effect for no, effect in state.effects.items() if not is_in(effect.path, item)},
        scopes={path: each for path, each in state.scopes.items() if path != item and not is_in(path, item)},
    )


def settle_aside(state: State, path: str, numbers: tuple[int, ...], *, is_resumed: bool) -> State:
    """A person said of these items of a list that they are done anew, or stay as they are. What stands of one that is
    done anew is `kept`: it stands, and nothing is done about it any more."""
    listing = _listing(state, path)
    meant = [number for number in numbers if number in listing.aside]
    again = tuple((number, listing.aside[number].generation) for number in meant) if is_resumed else ()
    stood = sum(listing.aside[number].stands for number, _ in again)
    left = dict(listing.left)
    if stood:
        left |= {"stands": left["stands"] - stood, "kept": left.get("kept", 0) + stood}
    others = listing.aside.keys() - set(meant)
    aside = {number: each for number, each in listing.aside.items() if number in others}
    accepted = listing.accepted if is_resumed else listing.accepted.union(meant)
    listing = replace(listing, aside=aside, again=(*listing.again, *again), left=left, accepted=accepted)
    state = replace(state, lists=put(state.lists, path, listing), accepted=state.accepted + len(meant) - len(again))
    if not aside:
        state = withdraw(state, lambda handoff: handoff.step == path and handoff.kind == "set_aside")
    return set_step(state, path, status="open") if again else state
