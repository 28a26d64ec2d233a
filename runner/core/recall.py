"""Reading ended items of lists back into the state, to be made good: out of what the log says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from runner.core import events as e
from runner.core.changes import put, stop_here
from runner.core.commands import Recall
from runner.core.fold import fold
from runner.core.listings import without_inside
from runner.core.paths import forgotten_item, is_in
from runner.core.state import State, replace

PAGE = 100
"""How many effects are read back at a time."""

V = TypeVar("V")
Facts = Sequence[tuple[int, e.Event]]
"""Facts with their places in the log."""


class Source(Protocol):
    """Where ended items are read from."""

    def newest(self, scope: str, before: int | None, limit: int) -> Sequence[tuple[int, str]]:
        """The effects in a scope that are not made good yet, (start number, path), below `before`, newest first."""

    def facts(self, items: Sequence[str], *, whole: bool) -> Mapping[str, Facts]:
        """For each of these items what the log has about it and in it: up to where it ended, or the `whole`. Of a run
        before this one it is always the whole."""


def recall(state: State, wanted: Recall, source: Source) -> State:
    """The state with what is wanted read back."""
    if wanted.items:
        state = _read_all(state, wanted.items, source, whole=True)
        return stop_here(state) if state.stops_here else state
    page = source.newest(wanted.scope, wanted.before, PAGE)
    paths = [path for _, path in page]
    while items := _forgotten(state, paths):
        state = _read_all(state, items, source, whole=False)
        settled = [item for item in items if not _is_meant(state, item)]
        for item in settled:
            state = _without(state, item)
        paths = [path for path in paths if not any(is_in(path, item) for item in settled)]
    floor = page[-1][0] if len(page) == PAGE else 0
    inside = replace(state.scopes[wanted.scope], recalled=floor)
    return replace(state, scopes=put(state.scopes, wanted.scope, inside))


def _forgotten(state: State, paths: Iterable[str]) -> tuple[str, ...]:
    found = dict.fromkeys(forgotten_item(state, path) for path in paths)
    found.pop("", None)
    return tuple(found)


def _is_meant(state: State, item: str) -> bool:
    """Something of the item is still to be made good."""
    effects = (effect.disposition for effect in state.effects.values() if is_in(effect.path, item))
    lists = (listing.left.get("pending", 0) for path, listing in state.lists.items() if is_in(path, item))
    return "pending" in effects or any(lists)


def _without(state: State, item: str) -> State:
    lists = {path: each for path, each in state.lists.items() if not is_in(path, item)}
    return replace(without_inside(state, item), lists=lists)


def _read_all(state: State, items: Sequence[str], source: Source, *, whole: bool) -> State:
    for item, facts in source.facts(items, whole=whole).items():
        state = _read(state, item, facts)
    return state


def _read(state: State, item: str, facts: Facts) -> State:
    """The item as its facts say, whatever was known of it; everything else stays."""
    apart = rest = without_inside(state, item)
    for at, (seq, event) in enumerate(facts):
        if event.step == item and isinstance(event, e.ScopeEnded | e.ItemSetAside):
            is_cleaned_up = any(isinstance(later, e.RunStarted) for _, later in facts[at:])
            apart = _at_its_end(apart, item, ("pending", "stands") if is_cleaned_up else ("pending",))
            continue
        if event.step == item and isinstance(event, e.ScopeStarted):
            apart = _without(apart, item)
        apart = fold(replace(apart, seq=seq - 1, at=0), event)
    scopes = _inside(apart.scopes, item) | {item: replace(apart.scopes[item], is_recalled=True)}
    return replace(
        rest,
        steps={**rest.steps, **_inside(apart.steps, item)},
        undo={**rest.undo, **_inside(apart.undo, item)},
        gates={**rest.gates, **_inside(apart.gates, item)},
        scopes={**rest.scopes, **scopes},
        lists={**rest.lists, **_inside(apart.lists, item)},
        calls={**rest.calls, **{name: call for name, call in apart.calls.items() if is_in(name[0], item)}},
        handoffs={**rest.handoffs, **{name: one for name, one in apart.handoffs.items() if is_in(one.step, item)}},
        effects={**rest.effects, **{no: one for no, one in apart.effects.items() if is_in(one.path, item)}},
    )


def _at_its_end(state: State, item: str, meant: tuple[str, ...]) -> State:
    """What has become of some of its effects by now is counted with its list, and only the others are still meant."""
    effects = {no: one for no, one in state.effects.items() if one.disposition in meant or not is_in(one.path, item)}
    lists = {
        path: replace(each, left={name: each.left.get(name, 0) for name in meant}) if is_in(path, item) else each
        for path, each in state.lists.items()
    }
    return replace(state, effects=effects, lists=lists)


def _inside(mapping: Mapping[str, V], item: str) -> dict[str, V]:
    return {path: value for path, value in mapping.items() if is_in(path, item)}


class LogSource:
    """Ended items read out of a log that is at hand as a whole; before that of a clean-up run stands the one of the run
    it cleans up after.
    """

    def __init__(self, events: Sequence[e.Event]) -> None:
        self._events = events

    def newest(self, scope: str, before: int | None, limit: int) -> Sequence[tuple[int, str]]:
        starts: dict[tuple[object, ...], int] = {}
        found: dict[int, str] = {}
        for event in self._events:
            if isinstance(event, e.CallIntended) and event.purpose == "do" and is_in(event.step, scope):
                starts[*event.call, event.generation] = event.start_no
            elif isinstance(event, e.CallApplied | e.CallSettled) and (*event.call, event.generation) in starts:
                if isinstance(event, e.CallApplied) or event.result == "applied":
                    found[starts[*event.call, event.generation]] = event.step
            elif isinstance(event, e.ScopeEnded) and event.outcome == "compensated" and "stands" not in event.effects:
                found = {start: path for start, path in found.items() if not is_in(path, event.step)}
        starts_below = [start for start in found if before is None or start < before]
        return [(start, found[start]) for start in sorted(starts_below, reverse=True)[:limit]]

    def facts(self, items: Sequence[str], *, whole: bool) -> Mapping[str, Facts]:
        found: dict[str, list[tuple[int, e.Event]]] = {item: [] for item in items}
        seq = 0
        for event in self._events:
            is_next = isinstance(event, e.RunStarted) and event.continues != ""
            seq = 1 if is_next else seq + 1
            for item, facts in found.items():
                if is_next or event.step == item or is_in(event.step, item):
                    facts.append((seq, event))
        return found
